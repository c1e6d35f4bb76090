"""Every mistake in a recipe or plan is told with file, line, key and what to write instead; several at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.checkout import PLAN, RECIPE

from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe import canonical_sha256, list_plans, list_recipes, load_plan, load_recipe
from specdeck.recipe.checks import check_plan_fits
from specdeck.recipe.jsonschema import schemas
from specdeck.recipe.load import open_recipe, parse_plan, parse_recipe, plain
from specdeck.recipe.show import as_yaml, origins

if TYPE_CHECKING:
    from pathlib import Path

    from support.checkout import Checkout


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n" for a, b in zip("abcde", "bcdef", strict=True)
)
MTP = "mtp: {method: mtp, num_speculative_tokens: 3}"


def refused(name: str | Path) -> SpecdeckError:
    with pytest.raises(SpecdeckError) as caught:
        load_recipe(name)
    assert caught.value.exit_code == EXIT_UNMEASURABLE
    assert caught.value.fix
    assert caught.value.where
    return caught.value


def with_line(line: str, *, instead_of: str | None = None) -> str:
    return RECIPE.replace(instead_of, line) if instead_of else RECIPE + line


def test_the_recipes_and_plans_of_this_repository_load() -> None:
    recipes = {name: load_recipe(name) for name in list_recipes()}
    assert "tiny-next-cpu" in recipes
    plans = [load_plan(name) for name in list_plans()]
    for plan in plans:
        assert not check_plan_fits(plan, recipes["tiny-next-cpu"])


def test_no_recipe_claims_to_be_verified_without_a_run() -> None:
    assert all(not load_recipe(name).verified_on for name in list_recipes())


@pytest.mark.parametrize(
    ("line", "instead_of", "where", "what", "fix"),
    [
        ("serve:\n  max_modl_len: 5", "serve:", "r.yml:8, key serve.max_modl_len", "unknown key", "max_model_len"),
        ("max_model_len: lots", "max_model_len: 2048", "r.yml:8, key serve.max_model_len", "is 'lots'", "whole"),
        ("max_model_len: 0", "max_model_len: 2048", "r.yml:8", "at least 1, is 0", "at least 1"),
        ("max_model_len: 2.5", "max_model_len: 2048", "r.yml:8", "whole number, is 2.5", "whole number"),
        ('max_model_len: "2048"', "max_model_len: 2048", "r.yml:8", "whole number, is '2048'", "whole number"),
        ("method: dflsh", "method: dflash", "r.yml:12, key arms.dflash2.method", "one of mtp, dflash", "dflash"),
        ("none: []", "none: {}", "r.yml:10, key arms.none", "a mapping of keys to values, is a list", "mapping"),
        ("none:", "none: {}", "r.yml:10, key arms.none", "is empty", "mapping"),
        ("nme: r", "name: r", "r.yml", "problems", "correct the lines"),
        ("name: other", "name: r", "r.yml:1, key name", "the file is called r.yml", "name: r"),
        ("name: [r]", "name: r", "r.yml:1", "text", "text"),
        ("enforce_eager: yes please", "max_model_len: 2048", "r.yml:8", "true or false", "true or false"),
        ('vllm: "about 0.32"', 'vllm: "==0.32.0"', "r.yml:5, key engine.vllm", "not a version specifier", ">=0.32"),
        ("runtime: local", "runtime: local, environment: cpu", "key engine.environment", "needs an environment", "cpu"),
        ("x86-64, gpus: 2", "x86-64", "key hardware.gpus", "uses no GPU", "remove"),
        ("cuda, gpus: 1", "cpu, class", "r.yml:6", "", ""),
        ("mtp: {num_speculative_tokens: 3}", MTP, "arms.mtp", "must say how", "method"),
        ("mtp: {method: mtp}", MTP, "arms.mtp", "number of drafted", "at least 1"),
        ("{method: mtp, num_speculative_tokens: 0}", MTP.removeprefix("mtp: "), "arms.mtp", "at least 1", ""),
        ("", "drafter: {path: models/drafter}\n", "key arms.dflash2.method", "needs a drafter", "drafter"),
        ("target: {license: mit}", "target: {path: models/target}", "key target", "either `repo` or `path`", "name"),
        ("target: {path: --help}", "target: {path: models/target}", "key target.path", "not a plain path", "leading"),
        ("target: {repo: a b/c}", "target: {path: models/target}", "key target.repo", "right form", "match"),
        ("serve: {env: {HF_TOKEN: x}}\n#", "serve:\n", "serve.env.HF_TOKEN", "no secrets", "export HF_TOKEN"),
        ("serve: {env: {'A B': x}}\n#", "serve:\n", "serve.env.A B", "name of an environment variable", "letters"),
        ("serve: {extra: {api_key: x}}\n#", "serve:\n", "serve.extra.api_key", "set by specdeck", "VLLM_API_KEY"),
        ("serve: {extra: {--port: 1}}\n#", "serve:\n", "serve.extra.--port", "not the name of an option", "spelling"),
        ("serve: {extra: {'a;rm -rf /': 1}}\n#", "serve:\n", "serve.extra", "not the name of an option", "spelling"),
        ("serve: {extra: {max-model-len: 1}}\n#", "serve:\n", "serve.extra", "key of its own", "serve.max_model_len"),
        ("serve: {extra: {x: [[1]]}}\n#", "serve:\n", "serve.extra.x", "only text and numbers", "mapping"),
        ("sources: {serve.nothing: me}\narms:", "arms:", "sources.serve.nothing", "no value at", "a key"),
        ("expect: {acceptance_length: {mpt: {min: 2, source: s}}}\narms:", "arms:", "mpt", "no arm 'mpt'", "mtp"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_a_fix(
    checkout: Checkout, line: str, instead_of: str, where: str, what: str, fix: str
) -> None:
    assert instead_of in RECIPE
    checkout.recipe("r", with_line(line, instead_of=instead_of))
    error = refused("r")
    assert where in str(error)
    assert what in error.what
    assert fix in str(error.fix) + error.what


def test_several_mistakes_are_told_together_each_with_its_line(checkout: Checkout) -> None:
    text = (
        RECIPE.replace("title: a recipe", "titel: a recipe").replace("2048", "lots").replace("tokens: 7", "tokens: 700")
    )
    checkout.recipe("r", text)
    error = refused("r")
    assert "4 problems" in error.what
    assert "recipes/r.yml:2: titel: unknown key" in error.what
    assert "recipes/r.yml:8: serve.max_model_len: must be a whole number, is 'lots'" in error.what
    assert "recipes/r.yml:12: arms.dflash2.num_speculative_tokens: must be at most 64, is 700" in error.what


def test_an_unknown_recipe_offers_the_nearest_names(checkout: Checkout) -> None:
    checkout.recipe("tiny-next-cpu", "name: tiny-next-cpu")
    assert "did you mean tiny-next-cpu" in str(refused("tiny-nxt-cpu").fix)
    assert "did you mean tiny-next-cpu" in str(refused("recipes/tiny-next-cpux.yml").fix)
    assert "use one of: r, tiny-next-cpu" in str(refused("zzzzzz").fix)
    with pytest.raises(SpecdeckError, match="no plan called 'q'"):
        load_plan("q")


@pytest.mark.parametrize("name", ["../r", "", ".", "/", "r\n", "r;rm", "x" * 5000, "-r", "r.yml\0"])
def test_a_strange_name_is_a_plain_error(checkout: Checkout, name: str) -> None:
    del checkout
    refused(name)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", "", "empty"),
        ("# only a comment\n", "", "empty"),
        ("- a\n- b\n", ":1", "not a mapping"),
        ("name: r\nname: s\n", ":2", "'name' appears twice (first at line 1)"),
        ("name: r\nserve: {a: 1, a: 2}\n", ":2", "'serve.a' appears twice"),
        ("name: r\n\tx: 1\n", ":2", "not valid YAML"),
        ("name: [r\n", ":2", "not valid YAML"),
        ("name: !!python/object/apply:os.system ['true']\n", ":1", "os.system' is not allowed"),
        ("name: !!python/name:os.system\n", ":1", "not allowed"),
        ("name: !!binary aGVsbG8=\n", ":1", "not allowed"),
        ("name: .nan\n", ":1", "not allowed"),
        ("n: " + "9" * 5000 + "\n", ":1", "not allowed"),
        ("? [a, b]\n: 1\n", ":1", "plain word"),
        ("base: &b {x: 1}\nserve: {<<: *b}\n", ":2", "merge keys"),
        (BOMB, "", "expands to too much"),
        ("a: &a [*a]\n", "", "nested too deeply"),
        ("a: " + "[" * 50 + "]" * 50 + "\n", ":1", "nested too deeply"),
        ("a: " + "[" * 5000, "", "nested too deeply"),
        ("x" * 300_000, "", "larger than 256 KiB"),
        ("name: r\x00\n", "", "not valid YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_recipe_is_told_as_that(checkout: Checkout, text: str, line: str, what: str) -> None:
    checkout.recipe("r", text)
    error = refused("r")
    assert what in error.what
    assert f"recipes/r.yml{line}" in str(error.where)


def test_a_file_in_another_encoding_is_told_with_its_line(checkout: Checkout) -> None:
    checkout.recipe("r", "").write_bytes(b"name: r\ntitle: caf\xe9\n")
    error = refused("r")
    assert "not UTF-8" in error.what
    assert error.where == "recipes/r.yml:2"


def test_an_unreadable_recipe_is_a_plain_error(checkout: Checkout) -> None:
    path = checkout.root / "recipes" / "folder.yml"
    path.mkdir()
    assert "cannot be read" in refused("folder").what


def test_dates_and_base_60_numbers_stay_text(checkout: Checkout) -> None:
    checkout.recipe("r", RECIPE.replace("title: a recipe", "title: 2026-11-30"))
    assert load_recipe("r").title == "2026-11-30"
    checkout.recipe("r", RECIPE.replace("title: a recipe", "title: 12:30"))
    assert load_recipe("r").title == "12:30"


def test_extends_merges_mappings_by_key_and_replaces_the_rest(checkout: Checkout) -> None:
    checkout.recipe(
        "bases/a", "serve: {max_num_seqs: 4, env: {A: '1'}}\narms: {none: {}}\nexpect: {log_lines: [x, y]}\n"
    )
    checkout.recipe("bases/b", "extends: bases/a\nserve: {max_num_seqs: 8, env: {B: '2'}}\nexpect: {log_lines: [z]}\n")
    checkout.recipe("r", "extends: [bases/b]\n" + RECIPE)
    recipe = load_recipe("r")
    assert recipe.serve.max_num_seqs == 8
    assert recipe.serve.max_model_len == 2048
    assert recipe.serve.env == {"A": "1", "B": "2"}
    assert recipe.expect.log_lines == ("z",)


def test_of_several_bases_the_later_one_wins(checkout: Checkout) -> None:
    checkout.recipe("bases/a", "serve: {max_num_seqs: 4, seed: 1}\n")
    checkout.recipe("bases/b", "serve: {max_num_seqs: 8}\n")
    checkout.recipe("r", "extends: [bases/a, bases/b]\n" + RECIPE)
    assert load_recipe("r").serve.max_num_seqs == 8
    assert load_recipe("r").serve.seed == 1


def test_null_takes_an_inherited_key_away(checkout: Checkout) -> None:
    checkout.recipe(
        "child", "extends: r\nname: child\nserve: {max_model_len: null}\narms: {dflash2: null}\ndrafter: null\n"
    )
    recipe = load_recipe("child")
    assert recipe.serve.max_model_len is None
    assert list(recipe.arms) == ["none", "mtp"]
    assert recipe.drafter is None


def test_a_mistake_in_a_base_is_told_with_the_bases_file_and_line(checkout: Checkout) -> None:
    checkout.recipe("bases/a", "# comment\nserve:\n  max_num_seqs: many\n")
    checkout.recipe("r", "extends: bases/a\n" + RECIPE)
    assert refused("r").where == "recipes/bases/a.yml:3, key serve.max_num_seqs"


def test_a_circle_of_extends_is_told_as_one(checkout: Checkout) -> None:
    checkout.recipe("bases/a", "extends: bases/b\n")
    checkout.recipe("bases/b", "extends: bases/a\n")
    checkout.recipe("r", "extends: bases/a\n" + RECIPE)
    assert "recipes/bases/a.yml → recipes/bases/b.yml → recipes/bases/a.yml" in refused("r").what


def test_a_long_chain_of_extends_is_refused(checkout: Checkout) -> None:
    for i in range(12):
        checkout.recipe(f"bases/l{i}", f"extends: bases/l{i + 1}\n")
    checkout.recipe("r", "extends: bases/l0\n" + RECIPE)
    assert "levels deep" in refused("r").what


@pytest.mark.parametrize("value", ["bases/tiny-nexd", "../../etc/passwd", "/etc/passwd", "3", "[{a: 1}]"])
def test_extends_of_something_else_is_refused(checkout: Checkout, value: str) -> None:
    checkout.recipe("bases/tiny-next", "serve: {}\n")
    checkout.recipe("r", f"extends: {value}\n" + RECIPE)
    error = refused("r")
    assert str(error.where).startswith("recipes/r.yml:1")
    if "nexd" in value:
        assert "bases/tiny-next" in str(error.fix)


def test_an_arm_overrides_the_recipes_options_and_adds_its_own(checkout: Checkout) -> None:
    arm = "mtp: {method: mtp, num_speculative_tokens: 3, serve: {max_model_len: 1024, env: {B: '2'}}}"
    text = RECIPE.replace(MTP, arm)
    checkout.recipe("r", text.replace("serve:\n", "serve:\n  env: {A: '1'}\n  seed: 3\n"))
    recipe = load_recipe("r")
    assert recipe.serve_of("none").max_model_len == 2048
    assert recipe.serve_of("mtp").max_model_len == 1024
    assert recipe.serve_of("mtp").seed == 3
    assert recipe.serve_of("mtp").env == {"A": "1", "B": "2"}


def test_the_resolved_form_reads_back_equal_with_the_same_hash(checkout: Checkout) -> None:
    del checkout
    recipe, plan = load_recipe("r"), load_plan("p")
    for again in (parse_recipe(plain(recipe)), parse_recipe(recipe.model_dump(mode="json"))):
        assert again == recipe
        assert canonical_sha256(again) == canonical_sha256(recipe)
    assert parse_plan(plain(plan)) == plan


def test_the_printed_recipe_is_a_recipe_with_the_same_hash(checkout: Checkout) -> None:
    before = load_recipe("r")
    checkout.recipe("r", as_yaml(before))
    assert canonical_sha256(load_recipe("r")) == canonical_sha256(before)


def test_the_hash_changes_with_a_value_and_not_with_layout_or_verification(checkout: Checkout) -> None:
    before = canonical_sha256(load_recipe("r"))
    checkout.recipe("r", "# a comment\n" + yaml.safe_dump(yaml.safe_load(RECIPE), sort_keys=True))
    assert canonical_sha256(load_recipe("r")) == before
    checkout.recipe("r", RECIPE + "verified_on: [{run: x, date: 2026-12-01, vllm: 0.32.0, host: h}]\n")
    assert canonical_sha256(load_recipe("r")) == before
    checkout.recipe("r", RECIPE.replace("2048", "2049"))
    assert canonical_sha256(load_recipe("r")) != before


def test_every_value_is_shown_with_the_place_it_comes_from(checkout: Checkout) -> None:
    checkout.recipe("child", "extends: r\nname: child\nserve: {seed: 1}\n")
    rows = {key: (value, where) for key, value, where in origins(open_recipe("child"))}
    assert rows["serve.max_model_len"] == ("2048", "recipes/r.yml:8")
    assert rows["serve.seed"] == ("1", "recipes/child.yml:3")
    assert rows["prompts"] == ("core-10", "default")


def test_a_plan_that_names_an_arm_the_recipe_lacks_offers_the_nearest(checkout: Checkout) -> None:
    checkout.plan("p", PLAN.replace("[none, mtp]", "[none, dflash]"))
    (problem,) = check_plan_fits(load_plan("p"), load_recipe("r"))
    assert "no arm 'dflash'" in problem.what
    assert "dflash2" in problem.fix


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[1, 4]", "[]", "at least"),
        ("[1, 4]", "[0]", "at least 1"),
        ("[1, 4]", "[1, 1]", "twice"),
        ("[1, 4]", "4", "a list"),
        ("max_tokens: 8", "max_tokens: 8\nrounds: 0", "at least 1"),
        ("max_tokens: 8", "max_tokens: 8\ntemperature: hot", "a number"),
        ("max_tokens: 8", "max_tokens: 8\nendpoint: chatt", "one of chat, completions"),
        ("max_tokens: 8", "max_tokens: 8\ncell_timeout_s: 5", "less time than one of its requests"),
        ("max_tokens: 8", "", "'max_tokens' is missing"),
    ],
)
def test_a_mistake_in_a_plan_is_told_like_one_in_a_recipe(checkout: Checkout, old: str, new: str, what: str) -> None:
    checkout.plan("p", PLAN.replace(old, new))
    with pytest.raises(SpecdeckError) as caught:
        load_plan("p")
    assert what in caught.value.what
    assert "bench/plans/p.yml" in str(caught.value.where)


def test_the_committed_schemas_are_current_and_accept_what_the_loader_accepts() -> None:
    for path, text in schemas(repo_root()).items():
        assert path.read_text("utf-8") == text
        validator = jsonschema.Draft202012Validator(json.loads(text))
        files = list(path.parent.rglob("*.yml"))
        assert files
        for file in files:
            validator.validate(yaml.safe_load(file.read_text("utf-8")))
        assert not validator.is_valid({"naem": "x"})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["{", "*a", "&a b", "!!x y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_recipe_loads_or_is_refused_and_never_anything_else(checkout: Checkout, data: st.DataObject) -> None:
    tree = yaml.safe_load(RECIPE)
    node: Any = tree
    path: list[tuple[Any, Any]] = []
    while isinstance(node, dict) and node and (not path or data.draw(st.booleans())):
        key = data.draw(st.sampled_from(sorted(node)))
        path.append((node, key))
        node = node[key]
    parent, key = path[-1]
    action = data.draw(st.sampled_from(["replace", "delete", "rename"]))
    if action == "replace":
        parent[key] = data.draw(VALUES)
    elif action == "delete":
        del parent[key]
    else:
        parent[data.draw(st.text(max_size=10))] = parent.pop(key)
    text = yaml.safe_dump(tree, allow_unicode=True)
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(text)))
        text = text[:cut] + data.draw(st.text(max_size=5)) + text[cut:]
    checkout.recipe("r", "").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_recipe("r")
    except SpecdeckError as error:
        told = (error.where, error.fix)
    else:
        told = ("loaded", "loaded")
    assert all(told)
