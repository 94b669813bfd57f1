"""Tags and tag expressions: field case 1.2, and the parser against a naive reading."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_store_sdk.errors import InvalidTagExpression
from knowledge_store_sdk.tags import (
    MAX_EXPRESSION_TAGS,
    MAX_TAG_CHARS,
    KnowledgeTag,
    TagExpression,
    is_tag,
    parse_query_string_tags,
    parse_tags,
    tag_from,
)

DOCUMENTS = {"D1": "a", "D2": "b", "D3": "c", "D4": "ab", "D5": "bc", "D6": "ac"}
ALPHABET = "ABCXYZabcxyz019_.:-"

tags = st.text(ALPHABET, min_size=1, max_size=12)
few_tags = st.sampled_from(["a", "b", "c", "a:b", "A"])
expressions = st.lists(st.lists(few_tags, min_size=1, max_size=4), min_size=1, max_size=5)


def naive(text: str, present: set[str]) -> bool:
    return any(all(tag in present for tag in term.split("+")) for term in text.split("|"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a+b|c", {"D3", "D4", "D5", "D6"}),
        ("c|a+b", {"D3", "D4", "D5", "D6"}),
        ("a|b+c", {"D1", "D4", "D5", "D6"}),
        ("a+b+c", set()),
    ],
)
@pytest.mark.parametrize("parse", [parse_tags, parse_query_string_tags])
def test_and_binds_tighter_than_or(parse: object, text: str, expected: set[str]) -> None:
    for spelling in {text, text.replace("+", " ")} if parse is parse_query_string_tags else {text}:
        expression = parse_query_string_tags(spelling) if parse is parse_query_string_tags else parse_tags(spelling)
        assert expression is not None
        assert {name for name, own in DOCUMENTS.items() if expression.matches(own)} == expected


MALFORMED = [
    ("a++b", 2), ("+a", 0), ("a|", 2), ("|", 0), (" ", 0), ("a b", 1), ("a+", 2), ("a||b", 2), ("(a)", 0),
    ("a+(b|c)", 2), ("a ", 1), (" a", 0), ("a\n", 1), ("ä", 0), ("a,b", 1), ("!a", 0), ("a\0", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "position"), MALFORMED)
def test_a_malformed_expression_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(InvalidTagExpression) as caught:
        parse_tags(text)
    assert caught.value.position == position
    assert str(position) in caught.value.detail


@pytest.mark.parametrize("text", ["a  b", " a", "a ", "a+ b", "a |b", " ", "a|", "a b+"])
def test_a_space_in_a_query_string_is_and_only_between_two_tags(text: str) -> None:
    with pytest.raises(InvalidTagExpression):
        parse_query_string_tags(text)


@pytest.mark.parametrize("text", [None, ""])
def test_nothing_is_no_filter(text: str | None) -> None:
    assert parse_tags(text) is None
    assert parse_query_string_tags(text) is None


def test_64_tags_stand_in_one_expression_and_no_more() -> None:
    assert parse_tags("|".join(["a"] * MAX_EXPRESSION_TAGS)) is not None
    with pytest.raises(InvalidTagExpression) as caught:
        parse_tags("|".join(["a"] * (MAX_EXPRESSION_TAGS + 1)))
    assert caught.value.position == 2 * MAX_EXPRESSION_TAGS


def test_a_tag_has_128_characters_and_no_more() -> None:
    assert parse_tags("a" * MAX_TAG_CHARS) is not None
    with pytest.raises(InvalidTagExpression):
        parse_tags("b|" + "a" * (MAX_TAG_CHARS + 1))


def test_every_well_known_tag_is_one() -> None:
    known = {value for name, value in vars(KnowledgeTag).items() if name.isupper()}
    assert known == {
        "employee", "wiki_page", "policy", "org_chart", "incident_report", "ticket", "threat_report", "sender_history",
        "executive", "finance", "engineering", "hr", "public", "internal", "runbook", "postmortem", "adr", "code",
        "document",
    }  # fmt: skip
    assert all(is_tag(one) for one in known)


@pytest.mark.parametrize(("name", "tag"), [
    ("Human Resources", "Human_Resources"), ("space:SRE", "space:SRE"), (" a  b ", "a_b"), ("a|b+c", "a_b_c"),
    ("x" * 200, "x" * 128), ("Füße", "F_e"),
])  # fmt: skip
def test_a_name_becomes_a_tag(name: str, tag: str) -> None:
    assert tag_from(name) == tag


@pytest.mark.parametrize("name", ["", " ", "日本"])
def test_a_name_without_a_letter_for_a_tag_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no tag"):
        tag_from(name)


@given(st.lists(st.lists(tags, min_size=1, max_size=8), min_size=1, max_size=8))
def test_what_is_printed_is_parsed_back(any_of: list[list[str]]) -> None:
    expression = TagExpression(tuple(tuple(one) for one in any_of))
    assert parse_tags(str(expression)) == expression
    assert parse_query_string_tags(str(expression).replace("+", " ")) == expression


@given(st.text(ALPHABET + "+| (", max_size=40))
def test_what_is_read_prints_as_it_was_and_what_is_not_has_its_position(text: str) -> None:
    well_formed = all(is_tag(tag) for term in text.split("|") for tag in term.split("+"))
    if well_formed:
        assert str(parse_tags(text)) == text
    elif text:
        with pytest.raises(InvalidTagExpression) as caught:
            parse_tags(text)
        # up to there it could have gone on to be an expression
        assert parse_tags(text[: caught.value.position] + "a") is not None


@given(expressions)
def test_an_expression_matches_as_its_text_reads(any_of: list[list[str]]) -> None:
    text = "|".join("+".join(term) for term in any_of)
    expression = parse_tags(text)
    assert expression is not None
    for size in range(4):
        for present in itertools.combinations(["a", "b", "c", "a:b", "A"], size):
            assert expression.matches(present) == naive(text, set(present))


@given(st.text(max_size=300))
def test_whatever_becomes_a_tag_is_one(name: str) -> None:
    try:
        assert is_tag(tag_from(name))
    except ValueError:
        assert not is_tag(name.strip()) or not name.strip("_ ")
