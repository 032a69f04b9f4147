"""The word `serve`: a page on this machine that shows the running wave."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

LOOK_EVERY_S = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """The program. It ends with Ctrl-C."""
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="serve.py", description="Show the running wave in a browser.")
    add = parser.add_argument
    add("--port", metavar="N", type=int, default=0, help="of the page (default: any free one)")
    add(
        "--wave",
        metavar="ID",
        help="only this wave, by its id or a prefix (default: the newest)",
    )
    parser.add_shared("--state-dir")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    import secrets

    from driver.execution.worker_pool import repeating
    from driver.live_page.feed import Feed
    from driver.live_page.server import LivePageServer
    from state_store.documents.errors import CannotRunError, InputError
    from state_store.place import open_store
    from state_store.views.store_summary import wave_named
    from state_store.write_api import begun_database
    from tools.settings.load import process_environment, resolve_store
    from tools.settings.secret_values import hide_configured

    if asked.json:
        raise InputError("serve is for people: leave --json out; status --json has the same facts")
    if not 0 <= asked.port <= 65535:
        raise InputError("--port is a number from 0 to 65535")
    hide_configured()
    state_dir = resolve_store(asked.state_dir)
    path, token = begun_database(state_dir), secrets.token_urlsafe(18)
    wave = wave_named(str(path), asked.wave) if asked.wave else None
    with open_store(path) as store:
        feed = Feed(store, state_dir, wave)
        feed.look()
        try:
            server = LivePageServer(feed, token, process_environment(), asked.port)
        except OSError as error:
            why = error.strerror or error
            raise CannotRunError(f"port {asked.port} cannot be used: {why}") from error
        print(f"page:  {server.address}")
        print(f"token: {token}   (its stop button asks for it)")
        print("Every user of this machine can open the page. Ctrl-C ends it.", flush=True)
        with server, repeating(LOOK_EVERY_S, feed.look):
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return 0
            finally:
                server.is_over.set()
    return 0
