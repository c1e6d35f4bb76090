"""What a recipe may say: one target on one class of hardware, with the arms to compare on it.

Shapes and ranges only; what must hold between fields is in checks.py. Serving options use vLLM's own spellings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
Method = Literal["mtp", "dflash"]
Positive = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """Base of every section. Unknown keys are errors: a mistyped option would otherwise silently not be applied."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        serialize_by_alias=True,
        defer_build=True,  # sections are built as parts of the whole, not each by itself as well
    )


class Checkpoint(Part):
    """Weights: a Hugging Face repository at a revision, or a local folder. Exactly one of `repo` and `path`."""

    repo: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")] | None = None
    """Hugging Face repository, `owner/name`."""
    path: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Local folder, relative to the checkout or absolute."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = None
    """Full commit hash. Absent: the repository's main branch, which may move."""
    architecture: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,79}$")] | None = None
    """First entry of `architectures` in its config.json, for checks while the files are not here."""
    size_bytes: Positive | None = None
    """Published size of all weight files."""
    license: str | None = None
    """SPDX identifier, or the licence's own name."""
    sha256: dict[str, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]] = Field(default_factory=dict)
    """File name to SHA-256, for local folders: checked before the server starts."""

    @property
    def where(self) -> str:
        """The repository or path, whichever is given."""
        return self.repo or self.path or "?"


class Fork(Part):
    """A fork of vLLM, for models that no release serves on this hardware."""

    repo: Annotated[str, StringConstraints(min_length=1)]
    """Where it is published."""
    methods: tuple[Literal["none", "mtp", "dflash"], ...]
    """Methods that somebody has published to work with it."""
    source: Annotated[str, StringConstraints(min_length=1)]
    """Where that was published."""


class Engine(Part):
    """Which vLLM serves, and where it runs."""

    vllm: str
    """Versions the recipe is for, as a PEP 440 specifier such as `>=0.32,<0.33`."""
    runtime: Literal["docker", "local"]
    """`docker`: a container. `local`: a vLLM in a Python environment on this machine."""
    environment: Literal["cpu"] | None = None
    """`cpu`: the environment that specdeck installs itself (.venv-engine). Absent: name a Python with --python."""
    image: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./:@-]*$")] | None = None
    """Container image, for the docker runtime."""
    patches: tuple[Name, ...] = ()
    """Ids of patches the image must carry."""
    fork: Fork | None = None
    """Set when the image is not vLLM's own; rules about releases then do not apply."""
    ready_timeout_s: Annotated[float, Field(gt=0, le=6 * 3600)] = 900.0
    """How long a server may take, in seconds, until it has proved to be ready."""


class Hardware(Part):
    """The class of machine the recipe is for."""

    device: Literal["cpu", "cuda"]
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    """GPUs of all nodes together."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Machines that serve the model together."""
    class_: Annotated[Name, Field(alias="class")]
    """Card or machine class, such as `rtx3090`, `a100-80g` or `x86-64`."""
    vram_gib: Annotated[float, Field(gt=0)] | None = None
    """Memory of one GPU in GiB."""
    link: Literal["pcie", "nvlink", "network"] | None = None
    """How the GPUs reach each other."""
    arms_resident: bool = False
    """Whether the servers of all arms fit in memory at once, so that rounds can interleave them."""


class Serve(Part):
    """Options of the server. Absent means vLLM's default. In an arm: what differs from the recipe's."""

    served_model_name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./-]*$")] | None = None
    dtype: str | None = None
    quantization: str | None = None
    tensor_parallel_size: Positive | None = None
    pipeline_parallel_size: Positive | None = None
    enable_expert_parallel: bool | None = None
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = None
    max_num_batched_tokens: Positive | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    kv_cache_dtype: str | None = None
    kv_cache_memory_bytes: Positive | None = None
    block_size: Positive | None = None
    enable_prefix_caching: bool | None = None
    mamba_cache_mode: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    attention_backend: str | None = None
    moe_backend: str | None = None
    disable_custom_all_reduce: bool | None = None
    enforce_eager: bool | None = None
    seed: int | None = None
    chat_template: str | None = None
    """Template file; absent: the one that comes with the tokenizer."""
    generation_config: str | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    enable_auto_tool_choice: bool | None = None
    limit_mm_per_prompt: dict[str, int] | None = None
    language_model_only: bool | None = None
    hf_overrides: dict[str, JsonValue] | None = None
    trust_remote_code: bool | None = None
    per_request_spec_decode_metrics: Literal["none", "summary", "detailed"] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the server. Never secrets: those come from the environment specdeck runs in."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Any other option of vLLM, passed through untouched: `some_option: 3` becomes `--some-option 3`."""


class Overlays(Part):
    """Names of model overlays: a changed config.json over the same weights."""

    target: Name | None = None
    drafter: Name | None = None


class Arm(Part):
    """One way to serve the target: without a drafter (`{}`), with MTP, or with DFlash."""

    method: Method | None = None
    """Always explicit: vLLM would otherwise guess it from the drafter's path."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)] | None = None
    """Tokens drafted per step."""
    draft_sample_method: Literal["greedy", "probabilistic"] | None = None
    unavailable: str | None = None
    """Why the engine cannot serve this arm; it is then shown, and never started."""
    serve: Serve = Field(default_factory=Serve)
    """Options that differ from the recipe's."""
    speculative: dict[str, JsonValue] = Field(default_factory=dict)
    """Other keys of vLLM's --speculative-config, passed through untouched."""


class AcceptanceRange(Part):
    """Acceptance length (bonus token included) that others published for this arm."""

    min: Annotated[float, Field(ge=1)] | None = None
    max: Annotated[float, Field(ge=1)] | None = None
    source: Annotated[str, StringConstraints(min_length=1)]
    """Where the figure was published."""


class RecordedPerplexity(Part):
    """Perplexity that this checkpoint had on fixed texts, by `specdeck quality`."""

    value: Annotated[float, Field(gt=1)]
    tokens: Positive
    """Tokens that were scored: other texts or another tokenizer give another number."""
    tolerance: Annotated[float, Field(gt=0, le=0.5)] = 0.02
    """Share of the value by which a sound server may differ."""
    source: Annotated[str, StringConstraints(min_length=1)]
    """What it was measured with."""


class Expect(Part):
    """What a run should show."""

    acceptance_length: dict[str, AcceptanceRange] = Field(default_factory=dict)
    perplexity: dict[Name, RecordedPerplexity] = Field(default_factory=dict)
    """By name of the texts (bench/texts)."""
    log_lines: tuple[str, ...] = ()
    """Texts that the server's log must contain before the arm counts as ready."""


class Verified(Part):
    """One run that proved the recipe end to end. Written from a run, never by hand."""

    run: str
    date: str
    vllm: str
    host: str


class Recipe(Part):
    """A target checkpoint on a hardware class, with the arms that are compared on it."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    target: Checkpoint
    drafter: Checkpoint | None = None
    engine: Engine
    hardware: Hardware
    serve: Serve = Field(default_factory=Serve)
    overlays: Overlays = Field(default_factory=Overlays)
    arms: dict[str, Arm]
    expect: Expect = Field(default_factory=Expect)
    prompts: Name = "core-10"
    """Measured prompts: a file of bench/prompts without `.jsonl`."""
    warmup_prompts: Name = "warmup"
    """Warm-up prompts, never measured: a file of bench/prompts without `.jsonl`."""
    texts: Name = "general"
    """Texts whose perplexity is checked: a file of bench/texts without `.jsonl`."""
    questions: Name | None = None
    """Questions of a model that knows only its own: a file of bench/questions without `.jsonl`."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where a value comes from: dotted key of this recipe to public reference."""
    verified_on: tuple[Verified, ...] = ()

    def serve_of(self, arm_name: str) -> Serve:
        """Return the serving options of an arm: the recipe's, overridden by the arm's own; env and extra by key."""
        own = self.arms[arm_name].serve
        changed = {key: value for key, value in own if value is not None}
        changed["env"] = self.serve.env | own.env
        changed["extra"] = self.serve.extra | own.extra
        return self.serve.model_copy(update=changed)
