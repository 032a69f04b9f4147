"""LiteLLM's proxy in front of the model server: somebody else's OpenAI-compatible server.

Owns its configuration and its life; the program itself is the test's to find.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 90
KEY = "sk-of-the-proxy"
CONFIG = """
model_list:
  - model_name: local
    litellm_params: {{model: openai/local, api_base: "{upstream}/v1", api_key: of-the-server}}
general_settings: {{master_key: {key}}}
"""


@contextmanager
def lite_llm(program: str, folder: Path, upstream: str) -> Iterator[str]:
    """The address of a proxy whose model `local` is the model server's."""
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(upstream=upstream, key=KEY), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    # Else it asks a public address for prices before it serves.
    environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (folder / "log").open("wb") as log:
        proxy = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, proxy)
            yield url
        finally:
            proxy.terminate()
            try:
                proxy.wait(timeout=60)
            except subprocess.TimeoutExpired:
                proxy.kill()
                proxy.wait()


def _wait_for(url: str, proxy: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health/liveliness", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert proxy.poll() is None, "the proxy ended while it started"
            assert time.monotonic() < deadline, "the proxy did not start in time"
            time.sleep(0.2)
