"""`agentic-rl serve`: put the local engine behind PyTRIO's protocol."""

from __future__ import annotations

import argparse
import ipaddress
import secrets
import sys
from pathlib import Path

from agentic_rl.errors import BackendError, ConfigError, MissingExtraError
from agentic_rl.serving.faults import KINDS, FaultSpec
from agentic_rl.serving.settings import ServerSettings

DESCRIPTION = """\
Serve the local engine behind PyTRIO's protocol. Any PyTRIO script trains here, unchanged, with
PYTRIO_BASE_URL=http://127.0.0.1:PORT and PYTRIO_API_KEY set to the key that is printed."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hang `serve` into the command line."""
    parser = subparsers.add_parser(
        "serve",
        help="a PyTRIO-compatible server over the local engine",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--base-model", default="builtin", metavar="MODEL", help="a folder, a hub id, or `builtin` (default)")
    add(
        "--served-model-name",
        action="append",
        metavar="NAME",
        help="the name that clients ask for; repeatable (default: the base model's own)",
    )
    add("--host", default="127.0.0.1", help="where to listen (default: this machine only)")
    add("--allow-remote", action="store_true", help="allow a --host that other machines reach; keys travel in clear")
    add("--port", type=int, default=8311, help="0 for any free one (default: 8311)")
    add("--api-key", metavar="KEY", help="what clients must show (default: made once, kept in the state folder)")
    add("--state-dir", type=Path, default=Path("runs/serve"), metavar="DIR", help="checkpoints and runs live here")
    add("--device", metavar="DEVICE", help="cpu or cuda (default: cuda where there is one)")
    add("--max-sequence-tokens", type=int, metavar="N", help="the longest sequence (default: the model's context)")
    add(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:RATE[:SEED]",
        help=f"for tests: inject faults, e.g. error:0.05; kinds: {', '.join(KINDS)}; repeatable",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the model and serve until interrupted."""
    try:
        from agentic_rl.policy.settle import settle_memory
        from agentic_rl.serving.app import build_app
        from agentic_rl.serving.local import LocalEngine
        from agentic_rl.serving.server import ServingProcess
    except ImportError as error:
        raise MissingExtraError(
            f"`agentic-rl serve` needs {error.name}", hint="Install the extra: uv sync --extra local"
        ) from error

    settings = settings_of(args)
    engine = LocalEngine.load(args.base_model, scratch=settings.state_dir, device=args.device)
    app = build_app(engine, settings)
    settle_memory()
    server = ServingProcess(app, settings.host, settings.port)
    try:
        socket = server.config.bind_socket()
    except SystemExit:  # uvicorn's way of saying that it cannot; its own line stands above
        where = f"{settings.host}:{settings.port}"
        raise BackendError(f"cannot listen on {where}", hint="Choose another --port; 0 is any free one.") from None
    port = socket.getsockname()[1]
    print(f"Serving {', '.join(settings.served_names)} ({args.base_model}) from {settings.state_dir}", flush=True)
    print(f"  export PYTRIO_BASE_URL=http://{_shown(settings.host)}:{port}", flush=True)
    shown = settings.api_key if args.api_key is None else "…the one you gave"
    print(f"  export PYTRIO_API_KEY={shown}", flush=True)
    for fault in settings.faults:
        print(f"  injecting {fault.kind} at {fault.rate:.1%}", file=sys.stderr)
    server.run(sockets=[socket])
    return 0


def settings_of(args: argparse.Namespace) -> ServerSettings:
    """The flags, checked."""
    if not (args.host == "localhost" or _is_loopback(args.host) or args.allow_remote):
        raise ConfigError(f"--host {args.host} can be reached from other machines", hint="Add --allow-remote if meant.")
    if not 0 <= args.port < 65536:
        raise ConfigError(f"--port {args.port} is not a port", hint="Give 0…65535.")
    if args.api_key is not None and (not args.api_key.strip() or not args.api_key.isascii()):
        raise ConfigError("--api-key is empty or not plain ASCII", hint="Leave it out and one is made.")
    if args.max_sequence_tokens is not None and args.max_sequence_tokens < 2:
        raise ConfigError("--max-sequence-tokens must be at least 2")
    return ServerSettings(
        state_dir=args.state_dir.resolve(),
        api_key=args.api_key or kept_api_key(args.state_dir),
        served_names=tuple(args.served_model_name or [args.base_model]),
        host=args.host,
        port=args.port,
        max_sequence_tokens=args.max_sequence_tokens,
        faults=tuple(FaultSpec.parse(text) for text in args.fault),
    )


def kept_api_key(state_dir: Path) -> str:
    """The state folder's own key: the same after a restart, so that clients go on."""
    from agentic_rl.serving.store import remembered

    return remembered(state_dir, "api_key", lambda: f"local-{secrets.token_urlsafe(24)}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
