"""Where a result comes from, as lines: host, accelerator, versions, commit, command. Missing parts are left out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from specdeck.report.format import clean

if TYPE_CHECKING:
    from specdeck.results.schema import Run


def origin(run: Run) -> list[tuple[str, str]]:
    """Label and value of everything known about where the run was made."""
    found = run.provenance
    host = _dict(found.get("host"))
    lines: list[tuple[str, str | None]] = [
        ("run", run.run_id),
        ("started", run.created_at),
        ("finished", run.finished_at),
        ("recipe", f"{run.recipe_name} (sha256 {run.recipe_sha256[:12]})" if run.recipe_sha256 else run.recipe_name),
        ("plan", f"{run.plan_name} (sha256 {run.plan_sha256[:12]})"),
        ("prompts", f"{run.prompts_file} (sha256 {run.prompts_sha256[:12]})"),
        ("device", run.device),
        ("processor", processor(run)),
        ("memory", f"{host['memory_gib']} GiB" if host.get("memory_gib") else None),
        ("GPUs", gpus(run)),
        ("system", _text(host.get("system"))),
        ("vLLM", vllm_version(run)),
        ("specdeck", _text(found.get("specdeck"))),
        ("commit", commit(run)),
        ("Python", _text(found.get("python"))),
        ("command", command(run)),
    ]
    lines += [(f"arm {name}", shlex.join(info.command)) for name, info in run.arms.items() if info.command]
    return [(clean(label, 60), clean(value, 2000)) for label, value in lines if value]


def one_line(run: Run) -> str:
    """The shortest honest origin: processor or GPUs, vLLM, date, commit, command."""
    parts = [
        gpus(run) or processor(run),
        f"vLLM {vllm_version(run)}" if vllm_version(run) else None,
        run.created_at[:10],
        f"commit {commit(run)}" if commit(run) else None,
    ]
    line = ", ".join(clean(part) for part in parts if part)
    asked = command(run)
    return f"{line}: {clean(asked)}" if asked else line


def processor(run: Run) -> str | None:
    """CPU model and number of cores."""
    host = _dict(run.provenance.get("host"))
    model, cores = _text(host.get("cpu")), host.get("cores")
    if model and cores:
        return f"{model}, {cores} cores"
    return model or (f"{cores} cores" if cores else None)


def gpus(run: Run) -> str | None:
    """Number and name of the GPUs the run was for; None on the CPU."""
    found = _dict(run.provenance.get("host")).get("gpus")
    if run.device == "cpu" or not isinstance(found, (list, tuple)) or not found:
        return None
    names = [str(_dict(gpu).get("name", "GPU")) for gpu in found]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def vllm_version(run: Run) -> str | None:
    """Version the servers said they are; all of them when arms differ."""
    versions = [_text(info.readiness.get("vllm_version")) for info in run.arms.values()]
    return ", ".join(dict.fromkeys(version for version in versions if version)) or None


def commit(run: Run) -> str | None:
    """Short commit, marked when the tree was changed."""
    git = _dict(run.provenance.get("git"))
    found = _text(git.get("commit"))
    if not found:
        return None
    return found[:12] + (" with changes" if git.get("dirty") else "")


def command(run: Run) -> str | None:
    """The command as a person would type it."""
    argv = run.provenance.get("argv")
    if not isinstance(argv, (list, tuple)) or not argv:
        return None
    words = [str(word) for word in argv]
    return shlex.join(["specdeck", *words[1:]])


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return str(value) if value else None
