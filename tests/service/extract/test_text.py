from knowledge_store.extract.text import extract_text
from tests.service.extract.checks import budget, check


def test_whole_paragraphs_are_packed_and_marks_of_markdown_mean_nothing() -> None:
    text = "\n\n".join(f"# Paragraph {n} has a few words.\nAnd a second line." for n in range(12))
    document = extract_text(text, budget(40), name="notes")
    check(text, document, budget(40))
    assert document.title == "notes"
    assert len(document.chunks) > 3
    for chunk in document.chunks:
        assert chunk.content.startswith("# Paragraph")
        assert chunk.content.endswith("second line.")
        assert (chunk.section, chunk.context) == (None, None)


def test_a_long_paragraph_is_divided_between_lines() -> None:
    text = "\r\n".join(f"2026-05-01 08:00:{n:02} broker {n} left the set" for n in range(60))
    document = extract_text(text, budget(60))
    check(text, document, budget(60))
    lines = [line for chunk in document.chunks for line in chunk.content.split("\r\n")]
    assert lines == text.split("\r\n")
