import time

import pytest

from knowledge_store.extract.front_matter import read_front_matter


def test_title_and_tags_are_read_and_the_end_is_where_the_body_begins() -> None:
    text = "---\ntitle: 'ISR  shrink'\ntags: [runbook, Human Resources]\n---\n# Body\n"
    front = read_front_matter(text)
    assert front.title == "ISR shrink"
    assert front.tags == ("runbook", "Human_Resources")
    assert text[front.end :] == "# Body\n"


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("a, b c", ("a", "b_c")),
        ("a b", ("a", "b")),
        ("[1.10, no, true]", ("1.10", "no", "true")),
        ("[a, a, '', '***', [b]]", ("a",)),
        ("{a: b}", ()),
        ("", ()),
    ],
)
def test_tags_are_a_list_or_a_text_and_what_can_be_no_tag_is_left_out(written: str, tags: tuple[str, ...]) -> None:
    assert read_front_matter(f"---\ntags: {written}\n---\n").tags == tags


def test_a_block_of_keys_that_is_no_yaml_ends_and_says_nothing() -> None:
    front = read_front_matter("---\ntitle: <%= x %>: {\n---\nbody")
    assert (front.title, front.tags) == (None, ())
    assert front.end == len("---\ntitle: <%= x %>: {\n---\n")


@pytest.mark.parametrize(
    "text", ["", "# A\n", "---\n", "---\nno end: 1\n", " ---\na: 1\n---\n", "---\n\nprose\n\n---\nmore"]
)
def test_other_text_has_no_front_matter(text: str) -> None:
    assert read_front_matter(text).end == 0


def test_crlf_and_dots_end_it_too() -> None:
    assert read_front_matter("---\r\ntitle: a\r\n...\r\nbody").end == len("---\r\ntitle: a\r\n...\r\n")


def test_a_title_never_holds_what_a_document_may_not() -> None:
    assert read_front_matter('---\ntitle: "a\\0b\\uD800c"\n---\n').title in {"abc", None}


def test_aliases_that_multiply_cost_nothing() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)), "tags: *a29"]
    started = time.monotonic()
    assert read_front_matter("---\n" + "\n".join(lines) + "\n---\n").tags == ()
    assert time.monotonic() - started < 2
