"""The text of a new `tidegate.toml`: the agent, and the test command of the project."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

# Agents with a name, and the program that shows that they are installed. docs/drivers.md has the
# reasons for the flags of the last three.
PROGRAMS: Mapping[str, str] = {
    "claude": "claude",
    "codex-cli": "codex",
    "opencode": "opencode",
    "gemini": "gemini",
    "aider": "aider",
}
_REVIEW_OFF = '\n[review]\nmode = "off"\n'
_BACKENDS: Mapping[str, str] = {
    "claude": """\
# Claude Code, logged in or with ANTHROPIC_API_KEY. Others: docs/drivers.md.
name = "claude"
""",
    "codex-cli": """\
# Codex, logged in or with OPENAI_API_KEY. Others: docs/drivers.md.
name = "codex-cli"
""",
    "opencode": """\
name = "command"
output = "opencode"
model = "openai/gpt-6-luna"
command = [
    "env", "OPENCODE_DB=:memory:", "OPENCODE_DISABLE_PROJECT_CONFIG=1",
    "OPENCODE_DISABLE_AUTOUPDATE=1", "opencode", "run", "--pure", "--format", "json",
    "--title", "tidegate", "--model", "{model}",
]
env = ["OPENAI_API_KEY"]
stall_s = 300
""",
    "gemini": """\
name = "command"
output = "gemini"
model = "gemini-2.5-flash"
command = [
    "gemini", "-o", "stream-json", "-m", "{model}", "--approval-mode", "auto_edit", "--skip-trust",
]
env = ["GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"]
stall_s = 300
""",
    "aider": """\
name = "command"
output = "aider"
model = "openai/gpt-6-luna"
command = [
    "aider", "--model", "{model}", "--edit-format", "whole", "--message-file", "{prompt_file}",
    "--no-analytics", "--analytics-log", "{usage_file}", "--yes-always", "--no-git", "--no-pretty",
    "--no-stream", "--map-tokens", "0", "--no-check-update", "--no-detect-urls",
    "--no-show-release-notes", "--no-show-model-warnings", "--no-suggest-shell-commands",
    "--chat-history-file", "/dev/null", "--input-history-file", "/dev/null", "{owned_files}",
]
env = ["OPENAI_API_KEY", "OPENAI_API_BASE"]
stall_s = 300
""",
}
_CONFIG = """\
# Settings of Tidegate; each line that is commented out shows its default. All of them, with what
# they mean: docs/configuration.md of Tidegate. Its tools/doctor.py, or tidegate doctor where it
# is installed, says whether a wave can run.

[backend]
{backend}# timeout_s = 1800
{review}
[workspace]
# Run once in each fresh clone, such as ["make deps"].
setup = []

[verify]
# timeout_s = 900
{integration}
[limits]
# Tokens that one run and one day (UTC) may spend. Without them there is no ceiling.
max_wave_tokens = 3_000_000
max_daily_tokens = 6_000_000
"""


def config_text(agent: str | Sequence[str] = "claude", test: str = "") -> str:
    """The settings for an agent by name, or for the words of its command, and for a project whose
    tests run by `test`."""
    known = isinstance(agent, str)
    backend = _BACKENDS[agent] if isinstance(agent, str) else _of_command(agent)
    review = _REVIEW_OFF if known and 'name = "command"' in backend else ""
    integration = ""
    if test:
        integration = (
            "# Has to be green on the last tree too, which has the work of all items of a wave.\n"
            f"integration = [{json.dumps(test)}]\n"
        )
    return _CONFIG.format(backend=backend, review=review, integration=integration)


def _of_command(words: Sequence[str]) -> str:
    return (
        "# It reads the prompt from stdin and edits the files in its current folder.\n"
        'name = "command"\n'
        f"command = {json.dumps(list(words))}\n"
        "# Variables that it may see, besides PATH, HOME, language and the like.\n"
        "env = []\n"
        "tier = 1  # 1 ships on a green test, 2 to 4 need a review as well\n"
    )
