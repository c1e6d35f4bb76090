"""`specdeck bench`: measure the arms of a recipe by a plan, print the tables, write the report."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

from specdeck.errors import EXIT_OK, EXIT_UNMEASURABLE, SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from specdeck.container.launch import Asked
    from specdeck.results.store import RunStore
    from specdeck.run.experiment import Outcome
    from specdeck.run.options import Options
    from specdeck.run.progress import Reporter
    from specdeck.run.servers import Servers
    from specdeck.telemetry.gpu import GpuSource

DEFAULT_RECIPE = "tiny-next-cpu"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("bench")(bench)


def bench(
    recipe: str | None = typer.Argument(None, help=f"Recipe name or file [default: {DEFAULT_RECIPE}]."),
    plan: str = typer.Option("mtp-vs-dflash2", help="Plan name or file."),
    arm: list[str] = typer.Option([], help="Only this arm (repeatable)."),
    base_url: list[str] = typer.Option([], help="Measure a running server: URL or ARM=URL (repeatable)."),
    prompts: str | None = typer.Option(None, help="Prompt set or JSONL file, instead of the plan's or the recipe's."),
    request_rate: float | None = typer.Option(
        None, min=0.001, max=1e6, help="Open loop: requests a second, sent when due. The plan's otherwise."
    ),
    burstiness: float | None = typer.Option(
        None, min=1e-6, max=1e6, help="Shape of the gaps with --request-rate: 1 is Poisson, less is burstier."
    ),
    trace: str | None = typer.Option(
        None, help="Open loop: replay the moments of a JSONL file (timestamp in ms, output_length)."
    ),
    max_concurrency: list[int] = typer.Option(
        [],
        min=1,
        max=4096,
        help="Most requests in flight (repeatable: a cell each), instead of the plan's concurrency.",
    ),
    num_prompts: int | None = typer.Option(None, min=1, help="Use so many prompts, categories in turn."),
    workers: str | None = typer.Option(None, metavar="auto|N", help="Processes that send the load."),
    output_len: int | None = typer.Option(None, min=1, help="Output budget of each request, in tokens."),
    temperature: float | None = typer.Option(None, min=0, max=2, help="Sampling; always sent, with all the others."),
    top_p: float | None = typer.Option(None, min=0, max=1, help="Sampling."),
    top_k: int | None = typer.Option(None, min=-1, help="Sampling; -1: no limit."),
    min_p: float | None = typer.Option(None, min=0, max=1, help="Sampling."),
    seed: int | None = typer.Option(None, help="Seed of each request's sampling."),
    ignore_eos: bool | None = typer.Option(None, "--ignore-eos/--no-ignore-eos", help="Generate the whole budget."),
    thinking: bool | None = typer.Option(
        None, "--thinking/--no-thinking", help="Sent to the chat template as enable_thinking."
    ),
    goodput: list[str] = typer.Option(
        [], metavar="KEY:MS", help="Limit of a good request: ttft, tpot or e2el in ms (repeatable)."
    ),
    num_speculative_tokens: list[str] = typer.Option(
        [], metavar="ARM=N,…", help="Measure a copy of the arm for each draft length: dflash2=3,5,7 (repeatable)."
    ),
    synthetic_acceptance: list[str] = typer.Option(
        [],
        metavar="ACCEPTANCE",
        help="Accept drafts at this length (4.08, geometric:4.08) or these rates (0.8,0.6,…) whatever they say; "
        "for step times (repeatable).",
    ),
    dummy_weights: bool = typer.Option(
        False, "--dummy-weights", help="Serve made-up weights in the checkpoints' shape; with --synthetic-acceptance."
    ),
    python: Path | None = typer.Option(None, help="Python that has vLLM, for recipes without a managed environment."),
    results: Path | None = typer.Option(None, help="Folder that gets the run [default: results/measured]."),
    fresh: bool = typer.Option(False, "--fresh", help="Start a new run even where an unfinished one could continue."),
    telemetry_url: str | None = typer.Option(
        None, help="DCGM exporter of the server's host, read for GPU figures instead of this host's driver."
    ),
    allow: list[str] = typer.Option([], metavar="ID", help="Start although this rule finds an error. Repeatable."),
    runtime: str = typer.Option(None, help="Override the recipe's runtime: docker or local."),
    image: str = typer.Option(None, help="Container: image with vLLM [default: the recipe's engine.image]."),
    gpus: str = typer.Option(None, help="Container: GPUs by index or UUID, comma-separated [default: the first ones]."),
    force: bool = typer.Option(
        False, "--force", help="Container: start although a GPU is in use or the image is not the recipe's."
    ),
) -> None:
    """Measure the arms of RECIPE by a plan, print the tables, and write results/measured/RUN/.

    An interrupted run continues when the same command is given again. API keys come from the environment
    (SPECDECK_API_KEY, VLLM_API_KEY or OPENAI_API_KEY).
    """
    import asyncio  # noqa: PLC0415 - `--help` must not pay for what a measurement needs

    import uvloop  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    from specdeck.container.launch import Asked  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.run.experiment import open_store  # noqa: PLC0415
    from specdeck.run.options import resolve  # noqa: PLC0415
    from specdeck.run.plan_changes import goodput_limits, workers_wanted  # noqa: PLC0415
    from specdeck.run.progress import ConsoleReporter  # noqa: PLC0415
    from specdeck.telemetry.dcgm import open_exporter  # noqa: PLC0415

    root = repo_root()
    if recipe is None and not base_url:
        recipe = DEFAULT_RECIPE
    options = resolve(
        root,
        recipe_name=recipe,
        plan_name=plan,
        arms=arm,
        base_urls=base_url,
        prompts=prompts,
        python=python,
        changes={
            "request_rate": request_rate,
            "burstiness": burstiness,
            "trace": trace,
            "concurrency": list(dict.fromkeys(max_concurrency)) or None,
            "limit": num_prompts,
            "workers": workers_wanted(workers),
            "max_tokens": output_len,
            "temperature": temperature,
            "top_p": top_p,
            "top_k": top_k,
            "min_p": min_p,
            "seed": seed,
            "ignore_eos": ignore_eos,
            "enable_thinking": thinking,
            "goodput": goodput_limits(goodput),
        },
        draft_lengths=num_speculative_tokens,
        synthetic=synthetic_acceptance,
        dummy_weights=dummy_weights,
    )
    asked = Asked(image=image, gpus=gpus, force=force)
    options = _placed(options, runtime, asked)
    contained = not options.attached and options.recipe is not None and options.recipe.engine.runtime == "docker"
    # Wrong text is what was asked for, and the run says so everywhere.
    _rules(options, recipe, allow, expected=["synthetic-rejection", "dummy-weights"] if synthetic_acceptance else [])
    exporter = open_exporter(telemetry_url) if telemetry_url else None
    console = Console()
    with ConsoleReporter(console) as reporter:
        reporter.line(f"{options.recipe_name}: arms {', '.join(options.arms)}; plan {options.plan.name}")
        engine_python = None if options.attached or contained else _engine(options, reporter)
        store = open_store(options, _results(results, root), fresh=fresh, reporter=reporter)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                outcome = runner.run(
                    _supervised(options, store, engine_python, reporter, exporter, asked if contained else None)
                )
        except (KeyboardInterrupt, asyncio.CancelledError) as stop:
            raise _interrupted(store, root) from stop
    raise typer.Exit(_report(store, outcome, console))


def _rules(options: Options, recipe: str | None, allowed: list[str], *, expected: Sequence[str] = ()) -> None:
    """Tell what the rules say about the arms; errors end it, unless the servers run already.

    Args:
        options: what is measured.
        recipe: the recipe's name or file.
        allowed: ids of rules whose errors a person has decided to live with.
        expected: ids of rules that tell nothing but what was asked for.

    Raises:
        SpecdeckError: an error of a rule that is not allowed, or an id that no rule has.
    """
    from specdeck.cli.rules import before_start  # noqa: PLC0415
    from specdeck.engine.environment import named_python  # noqa: PLC0415

    if options.recipe is None or recipe is None:
        return
    arms = [name for name in options.arms if name in options.recipe.arms]
    starts = not options.attached
    python = named_python(options.root, options.python) if starts else None
    before_start(
        recipe,
        arms,
        python=python,
        allowed=allowed,
        expected=expected,
        refuse_errors=starts,
        host=starts,
        changed=options.recipe,
    )


def _results(named: Path | None, root: Path) -> Path:
    return named.absolute() if named else root / "results" / "measured"


async def _supervised(
    options: Options,
    store: RunStore,
    python: Path | None,
    reporter: Reporter,
    gpus: GpuSource | None,
    asked: Asked | None,
) -> Outcome:
    from specdeck.run.experiment import run_experiment  # noqa: PLC0415
    from specdeck.run.selftest import self_test  # noqa: PLC0415

    stop_on_signals()
    servers = servers_for(options, store, python, reporter, asked=asked)
    return await run_experiment(options, store, servers, reporter, gpus=gpus, self_test=self_test)


def stop_on_signals() -> None:
    """Cancel the running task on SIGTERM and SIGHUP, so that its servers are stopped as on Ctrl-C."""
    import asyncio  # noqa: PLC0415
    import signal  # noqa: PLC0415

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it: a closed terminal does not stop the run
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def servers_for(
    options: Options, store: RunStore, python: Path | None, reporter: Reporter, *, asked: Asked | None = None
) -> Servers:
    """Return where arms' servers come from: containers where asked, started with `python`, or running already."""
    from specdeck.engine.attach import api_key_from_environment  # noqa: PLC0415
    from specdeck.run.servers import AttachedServers, LocalServers  # noqa: PLC0415
    from specdeck.run.starting import containers, programs  # noqa: PLC0415

    if asked is not None:
        return LocalServers(options, store.path, containers(options, asked, reporter.line), reporter)
    if python is None:
        return AttachedServers(options, reporter, api_key_from_environment())
    return LocalServers(options, store.path, programs(options, python), reporter)


def _placed(options: Options, runtime: str | None, asked: Asked) -> Options:
    """Put the runtime that was asked for into the recipe, as `specdeck serve` does."""
    from dataclasses import replace  # noqa: PLC0415

    from specdeck.cli.serve import with_runtime  # noqa: PLC0415

    if options.recipe is None or options.attached:
        return options
    return replace(options, recipe=with_runtime(options.recipe, runtime, options.python, asked, detach=False))


def _engine(options: Options, reporter: Reporter) -> Path:
    """Return the interpreter that has vLLM, after setting the managed environment up where the recipe uses one."""
    from specdeck.engine.environment import engine_python  # noqa: PLC0415

    assert options.recipe is not None
    return engine_python(options.recipe, options.root, python=options.python, progress=reporter.line)


def _interrupted(store: RunStore, root: Path) -> SpecdeckError:
    from specdeck.run.provenance import without_root  # noqa: PLC0415

    kept = len(store.cells())
    store.discard_if_empty()
    return SpecdeckError(
        f"interrupted: {kept} finished cells are kept, servers are stopped",
        where=without_root(str(store.path), root),
        fix="run the same command again: it continues where it stopped",
    )


def _report(store: RunStore, outcome: Outcome, console: Console) -> int:
    """Write and print what there is, then say how it went."""
    from specdeck.cli.report import report_run  # noqa: PLC0415

    if store.cells():
        report_run(store.path, console)
    store.discard_if_empty()
    for arm, error in outcome.failures.items():
        console.print(f"\narm {arm} failed\n{error}", markup=False, highlight=False, soft_wrap=True)
    if outcome.failures:
        return min(error.exit_code for error in outcome.failures.values())
    if outcome.invalid:
        console.print(
            f"\n{outcome.invalid} cells are invalid and in no table; the findings above say why.\n"
            "  Fix: remove the cause, then start over with --fresh",
            markup=False,
            highlight=False,
        )
        return EXIT_UNMEASURABLE
    return EXIT_OK
