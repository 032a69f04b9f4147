"""The variables that name the places of toolchains.

A tool whose variable is missing looks in HOME, which is private.
"""

from __future__ import annotations

TOOLCHAIN_PLACES = (
    *("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "UV_TOOL_DIR", "MAMBA_ROOT_PREFIX", "NVM_DIR"),
    *("VOLTA_HOME", "FNM_DIR", "N_PREFIX", "PNPM_HOME", "BUN_INSTALL", "COREPACK_HOME"),
    *("DENO_DIR", "RUSTUP_HOME", "CARGO_HOME", "GOROOT", "GOPATH", "GOMODCACHE", "JAVA_HOME"),
    *("JDK_HOME", "M2_HOME", "MAVEN_HOME", "GRADLE_HOME", "SDKMAN_DIR", "KOTLIN_HOME"),
    *("ANDROID_HOME", "ANDROID_SDK_ROOT", "RBENV_ROOT", "ASDF_DIR", "ASDF_DATA_DIR"),
    *("MISE_DATA_DIR", "DOTNET_ROOT", "PLAYWRIGHT_BROWSERS_PATH", "CUDA_HOME", "CCACHE_DIR"),
)
