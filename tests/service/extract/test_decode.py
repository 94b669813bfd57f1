import codecs
import sys
from pathlib import Path

import pytest

from knowledge_store.extract.decode import NotText, decode
from knowledge_store_sdk.errors import SkippableItem


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_and_is_no_part_of_the_text(encoding: str) -> None:
    assert decode("Überlauf 👩‍👩‍👧".encode(encoding)) == "Überlauf 👩‍👩‍👧"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
)
def test_both_byte_orders_are_read(mark: bytes, encoding: str) -> None:
    assert decode(mark + "Überlauf".encode(encoding)) == "Überlauf"


def test_line_ends_stay_so_that_crlf_counts_two() -> None:
    assert decode(b"a\r\nb\rc\n") == "a\r\nb\rc\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Der Überlauf der Müllgruben wird geprüft, größer als zuvor. " * 5, "cp1252"),
        ("Le débordement était prévu après la fermeture de la vanne à côté. " * 5, "cp1252"),
        ("Резервная копия базы данных создаётся каждую ночь и проверяется утром. " * 5, "cp1251"),
        ("Резервная копия базы данных создаётся каждую ночь.", "koi8_r"),
        ("Řízení kvality je důležité při výrobě.", "cp1250"),
        ("资料库主节点发生故障时请联系值班人员。", "gb18030"),
        ("データベースの障害が発生した場合は、当番の技術者に連絡してください。" * 5, "shift_jis"),
    ],
)
def test_an_older_encoding_is_detected(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("data", [b"", b" \n\t ", codecs.BOM_UTF8, "\u00a0\u2003".encode()])
def test_a_blank_file_has_no_text(data: bytes) -> None:
    with pytest.raises(NotText) as caught:
        decode(data)
    assert caught.value.reason == "no_text"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"text with a \x00 in it",
        "text with a \0 in it".encode("utf-16"),
        codecs.BOM_UTF16_LE + b"odd",
        codecs.BOM_UTF8 + b"\xff",
        bytes(range(1, 256)) * 4,
    ],
)
def test_binary_is_told_from_text(data: bytes) -> None:
    with pytest.raises(NotText) as caught:
        decode(data)
    assert caught.value.reason == "binary"


def test_the_error_skips_one_item() -> None:
    assert issubclass(NotText, SkippableItem)


def test_a_compiled_program_is_no_text() -> None:
    with pytest.raises(NotText):
        decode(Path(sys.executable).read_bytes()[:100_000])
