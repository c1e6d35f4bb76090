"""Rebuild or check the tiny pair: `python models/tiny-next/train [build|check|served|prompts]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

HOME = Path(__file__).resolve().parents[1]


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and run one command; 0 when all is well, 1 when it failed, 2 when it cannot run here."""
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    parser.add_argument("command", nargs="?", default="build", choices=("build", "check", "served", "prompts"))
    parser.add_argument(
        "--folder", type=Path, default=HOME, help="where target/ and drafter/ are (default: beside this)"
    )
    parser.add_argument(
        "--prompts", type=Path, default=HOME.parents[1] / "bench" / "prompts", help="prompt file folder"
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:8000", help="served: where the server is")
    parser.add_argument("--max-tokens", type=_positive, default=64, help="tokens of a reply that acceptance counts")
    parser.add_argument("--save", type=Path, default=None, help="served: write the replies here")
    parser.add_argument("--against", type=Path, default=None, help="served: compare with replies written before")
    parser.add_argument("--problems", type=int, default=7, help="seed of the held-out problems (default: 7)")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything a build draws (default: 0)")
    parser.add_argument("--device", default=None, help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--threads", type=_positive, default=None, help="CPU threads (default: PyTorch's choice)")
    parser.add_argument("--count", type=_positive, default=300, help="held-out problems to check on (default: 300)")
    parser.add_argument("--shorten", type=float, default=1.0, help="share of all training steps, for a trial run")
    options = parser.parse_args(argv)

    try:
        return _run(options)
    except ImportError as error:
        print(
            f"error: {error}\nFix: use the training environment that models/tiny-next/README.md sets up",
            file=sys.stderr,
        )
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {error}\nFix: {FIXES[options.command]}", file=sys.stderr)
        return 1


FIXES = {
    "build": "undo the change that altered the layout, or make room in --folder",
    "check": "rebuild the pair with the `build` command, or restore it with `git checkout models/tiny-next`",
    "served": "start a vLLM with this pair and give its address with --base-url",
    "prompts": "give a folder that can be written with --prompts",
}


def _run(options: argparse.Namespace) -> int:
    # Absolute imports, because this file may run as a script; late ones, because only two commands need torch.
    from train.prompts import write_prompts, write_questions, write_texts  # noqa: PLC0415
    from train.served import check_server  # noqa: PLC0415

    started = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - started:7.1f} s] {line}", flush=True)

    if options.command == "prompts":
        write_prompts(options.prompts)
        write_texts(options.prompts.parent / "texts")
        write_questions(options.prompts.parent / "questions")
        return 0
    if options.command == "served":
        for line in check_server(
            options.base_url.rstrip("/"),
            seed=options.problems,
            count=options.count,
            max_tokens=options.max_tokens,
            save=options.save,
            against=options.against,
        ):
            report(line)
        return 0

    # Threads that spin while they wait make a shared machine ten times slower; must be set before torch loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch  # noqa: PLC0415

    from train.build import build  # noqa: PLC0415
    from train.check import check_pair  # noqa: PLC0415

    if options.threads:
        torch.set_num_threads(options.threads)
    if options.command == "build":
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        build(options.folder, torch.device(device), options.seed, options.shorten, report)
    for line in check_pair(options.folder, seed=options.problems, count=options.count, max_tokens=options.max_tokens):
        report(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
