"""Diffs are read strictly and applied exactly; what does not fit is told with what is there instead."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.patches import DIFF, ONE, ONE_PATCHED, TWO, TWO_PATCHED

from specdeck.errors import SpecdeckError
from specdeck.image.diff import FileDiff, Mismatch, apply, parse

HEAD = "--- a/vllm/one.py\n+++ b/vllm/one.py\n"


def only(text: str) -> FileDiff:
    (diff,) = parse(text, "d")
    return diff


def test_every_file_of_a_diff_is_changed_as_it_says() -> None:
    one, two = parse(DIFF, "d")
    assert (one.path, two.path) == ("vllm/one.py", "vllm/two.py")
    assert apply(one, ONE) == ONE_PATCHED
    assert apply(two, TWO) == TWO_PATCHED


@given(
    st.lists(st.sampled_from(["a\n", "b\n", "\n", "\x0c\n", "a\u2028b\n", "x\r\n"]), max_size=12),
    st.lists(st.sampled_from(["a\n", "b\n", "\n", "\x0c\n", "a\u2028b\n", "x\r\n"]), max_size=12),
    st.integers(0, 3),
)
def test_a_diff_of_any_two_texts_turns_one_into_the_other(old: list[str], new: list[str], context: int) -> None:
    text = "".join(difflib.unified_diff(old, new, "a/f.py", "b/f.py", n=context))
    if text:
        assert apply(only(text), "".join(old)) == "".join(new)


def test_a_missing_newline_at_the_end_is_kept_and_made() -> None:
    without = f"{HEAD}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"
    assert apply(only(without), "a") == "b"
    assert apply(only(f"{HEAD}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"), "a") == "a\n"
    assert isinstance(apply(only(without), "a\n"), list)


def test_a_file_can_be_created() -> None:
    diff = only("--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+a = 1\n+b = 2\n")
    assert diff.creates
    assert apply(diff, "") == "a = 1\nb = 2\n"


def test_a_hunk_that_stands_one_line_lower_does_not_fit_and_is_found_there() -> None:
    one, _ = parse(DIFF, "d")
    assert apply(one, "# new\n" + ONE) == [Mismatch(1, 2, "b = 2\n", "a = 1\n", 3)]


def test_a_changed_context_line_does_not_fit_and_is_shown() -> None:
    one, _ = parse(DIFF, "d")
    assert apply(one, ONE.replace("d = 4", "d = 44")) == [Mismatch(1, 4, "d = 4\n", "d = 44\n", None)]


def test_a_file_that_ends_too_early_is_told() -> None:
    one, _ = parse(DIFF, "d")
    assert apply(one, "a = 1\nb = 2\n") == [Mismatch(1, 3, "c = 3\n", None, None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no file in it"),
        ("hello\n", "no file in it"),
        ("@@ -1 +1 @@\n-a\n+b\n", "stands before the file"),
        (HEAD, "changes nothing in vllm/one.py"),
        ("--- a/f.py\n", "no line with"),
        ("--- a/f.py\n+++ b/g.py\n@@ -1 +1 @@\n-a\n+b\n", "deletes or renames"),
        ("--- a/f.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deletes or renames"),
        ("rename from f.py\n", "more than change text"),
        ("GIT binary patch\n", "more than change text"),
        ("--- a/../f.py\n+++ b/../f.py\n@@ -1 +1 @@\n-a\n+b\n", "plain relative path"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "plain relative path"),
        (f"{HEAD}@@ -1,2 +1 @@\n-a\n+b\n", "ends too early"),
        (f"{HEAD}@@ -1,2 +1,2 @@\n-a\n+b\n?c\n", "begins with none of"),
        (f"{HEAD}@@ -1 +1 @@\n a\n", "changes nothing"),
        (f"{HEAD}@@ one @@\n-a\n", "no right head"),
        (DIFF + DIFF, "twice"),
    ],
)
def test_what_is_no_exact_diff_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(SpecdeckError, match=said) as caught:
        parse(text, "d")
    assert (caught.value.where or "").startswith("d:")
