import pytest

from knowledge_store.extract.markdown import extract_markdown
from tests.service.extract.checks import budget, check, embedded, words_and_marks

RUNBOOK = """# Kafka

What to do about brokers.

## ISR shrink

{shrink}

### Recovery

{recovery}

## Disk full

Delete old segments.
"""
LONG = " ".join(f"Sentence number {n} says that a broker fell behind." for n in range(12))


def test_a_short_document_is_one_chunk_without_context() -> None:
    text = "# Kafka\n\nRestart the broker.\n\n## See also\n\nNothing.\n"
    document = extract_markdown(text, budget(100))
    (chunk,) = document.chunks
    assert chunk.content == text.strip()
    assert (document.title, chunk.section, chunk.context) == ("Kafka", "Kafka", None)
    assert chunk.locator.heading_path == ("Kafka",)


def test_context_is_the_path_of_the_headings_above_and_section_the_nearest() -> None:
    text = RUNBOOK.format(shrink=LONG, recovery=LONG)
    document = extract_markdown(text, budget(64))
    check(text, document, budget(64))
    last_of_recovery = [chunk for chunk in document.chunks if chunk.section == "Recovery"][-1]
    assert last_of_recovery.context == "Kafka > ISR shrink > Recovery"
    assert last_of_recovery.locator.heading_path == ("Kafka", "ISR shrink", "Recovery")
    assert "#" not in last_of_recovery.content


def test_a_chunk_that_begins_with_its_heading_has_only_those_above_it_in_context() -> None:
    document = extract_markdown(RUNBOOK.format(shrink=LONG, recovery=LONG), budget(64))
    first = next(chunk for chunk in document.chunks if chunk.content.startswith("### Recovery"))
    assert first.context == "Kafka > ISR shrink"
    assert first.section == "Recovery"


def test_the_rest_of_a_section_does_not_go_on_into_the_section_beside_it() -> None:
    document = extract_markdown(RUNBOOK.format(shrink=LONG, recovery=LONG), budget(64))
    for chunk in document.chunks:
        assert ("Delete old segments" in chunk.content) == (chunk.section == "Disk full")


def test_a_heading_goes_with_what_follows_it() -> None:
    text = "\n\n".join(f"## Part {n}\n\n{LONG}" for n in range(4))
    document = extract_markdown(text, budget(50))
    check(text, document, budget(50))
    for chunk in document.chunks:
        assert not chunk.content.splitlines()[-1].startswith("#")


def test_headings_without_a_body_are_kept() -> None:
    text = "# A\n\n## B\n\n## C\n\ntext\n\n## D\n"
    for tokens in (16, 100):
        document = extract_markdown(text, budget(tokens))
        check(text, document, budget(tokens))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From the front\n---\n# Heading\n\nx", "From the front"),
        ("## Second\n\nx\n\n# First\n\nx", "First"),
        ("### Only `etcd` [here](http://x)\n\nx", "Only etcd here"),
        ("Setext *title*\n=====\n\nx", "Setext title"),
        ("no heading", "the name"),
        ("> # quoted\n", "the name"),
    ],
)
def test_the_title_is_that_of_the_front_matter_else_a_heading_else_the_name(text: str, title: str) -> None:
    assert extract_markdown(text, budget(100), name="the name").title == title


def test_a_title_takes_at_most_a_quarter_of_the_budget() -> None:
    text = f"# {'very long ' * 100}\n\n{LONG}"
    document = extract_markdown(text, budget(64))
    assert document.title is not None
    assert words_and_marks(document.title) <= 16
    check(text, document, budget(64))


def test_front_matter_is_searchable_and_its_tags_are_tags() -> None:
    text = "---\ncompany: Heroku\ntags: [outage]\n---\nAn update broke it.\n"
    document = extract_markdown(text, budget(100))
    assert document.tags == ("outage",)
    assert "company: Heroku" in document.chunks[0].content
    assert document.chunks[0].section is None


def test_front_matter_belongs_to_the_first_heading_where_they_share_a_chunk() -> None:
    document = extract_markdown("---\nweight: 20\n---\n\n# Clock\n\n## Meaning\n\nIt is wrong.\n", budget(100))
    (chunk,) = document.chunks
    assert (chunk.section, chunk.context) == ("Meaning", None)


def test_a_paragraph_is_divided_after_a_sentence_although_its_lines_are_wrapped() -> None:
    text = "\n".join(LONG.split(" a ")) + "\n"
    document = extract_markdown(text, budget(40))
    check(text, document, budget(40))
    assert len(document.chunks) > 2
    assert all(chunk.content.endswith(".") for chunk in document.chunks)


def test_a_list_is_divided_between_its_items() -> None:
    text = "\n".join(f"- Item {n} is about one thing\n  and goes on in a second line." for n in range(20))
    document = extract_markdown(text, budget(50))
    check(text, document, budget(50))
    assert len(document.chunks) > 3
    assert all(chunk.content.startswith("- Item") for chunk in document.chunks)


def test_a_fence_is_divided_between_its_lines() -> None:
    lines = [f"    kubectl get pods {n} # and a comment" for n in range(40)]
    text = "# Commands\n\n```sh\n" + "\n".join(lines) + "\n```\n\nAfter.\n"
    document = extract_markdown(text, budget(60))
    check(text, document, budget(60))
    whole = [line for chunk in document.chunks for line in chunk.content.split("\n")]
    assert all(line in whole for line in lines), "each line is whole, with its indentation, in one chunk"


def test_a_heading_inside_a_fence_is_no_heading() -> None:
    text = f"# A\n\n```\n# not a heading\n```\n\n{LONG}"
    assert {chunk.section for chunk in extract_markdown(text, budget(40)).chunks} == {"A"}


@pytest.mark.parametrize(
    "text",
    [
        "<div>\n<p>html</p>\n\n<!-- a comment -->\n</div>\n",
        "[a]: http://a\n[b]: http://b\n\nSee [a][b].\n",
        "Text[^1].\n\n[^1]: A footnote\n    that goes on.\n",
        "> " * 60 + "deep\n",
        "- " * 60 + "deep\n",
        "a\r\nb\r\r\n# c\r\rd\r\n",
        "\ta\n\n\x0bform\x0cfeed\x85next\u2028line\n",
        "| a |\n|---|\n",
        "***\n---\n___\n",
        "```\nnever closed\n\n# x\n",
    ],
)
def test_nothing_that_is_not_blank_is_lost(text: str) -> None:
    for tokens in (16, 200):
        check(text, extract_markdown(text, budget(tokens)), budget(tokens))


def test_short_sections_share_a_chunk_and_a_long_one_begins_its_own() -> None:
    text = f"# A\n\n## Meaning\n\nIt is down.\n\n## Impact\n\nNo logs.\n\n## Diagnosis\n\n{LONG}"
    chunks = extract_markdown(text, budget(100)).chunks
    assert chunks[0].section == "Meaning"
    assert "Meaning" in chunks[0].content
    assert "Impact" in chunks[0].content
    large = extract_markdown(text.replace("It is down.", LONG[:250]), budget(100)).chunks
    assert [chunk.section for chunk in large][:2] == ["Meaning", "Impact"]


def test_a_section_that_is_divided_repeats_nothing_in_its_content() -> None:
    text = RUNBOOK.format(shrink=LONG, recovery=LONG)
    document = extract_markdown(text, budget(64))
    assert "".join("".join(chunk.content.split()) for chunk in document.chunks) == "".join(text.split())
    assert all(embedded(document, chunk).startswith("Kafka\n") for chunk in document.chunks)
