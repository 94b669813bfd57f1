"""Which test shows which line under "right result" of the shared field cases: case, line, tests.

`test_field_cases.py` checks that every line has its entry and that every test named here exists.
"""

from __future__ import annotations

from typing import Final

_FILTERS = "sdk/knowledge_store_sdk/testing/index_suite_filters.py"
_CLIENT = "sdk/knowledge_store_sdk/testing/client_suite_asking.py"
_WRITES = "tests/service/backends/test_elasticsearch_writes.py"
_IDENTITY = "tests/service/test_identity.py"
_CHUNKS = "tests/sdk/test_chunking.py"
_SPLITTING = "tests/service/extract/test_splitting.py"
_TABLES = "tests/service/extract/test_tables.py"
_LONG = "tests/service/embedding/test_long_texts.py"
_DOWN = "tests/service/test_embedder_down.py"
_STATES = "tests/service/embedding/test_embedder_states.py"
_BODIES = "tests/service/api/test_bodies.py"
_CUT = "tests/service/test_interruptions.py"

TESTS: Final[dict[tuple[str, int], tuple[str, ...]]] = {
    ("1.1", 1): (
        f"{_FILTERS}::test_every_narrowing_binds_both_legs",
        "tests/service/test_filters.py::test_a_filter_binds_every_mode",
    ),
    ("1.1", 2): (f"{_FILTERS}::test_every_narrowing_binds_both_legs", f"{_FILTERS}::test_narrowings_combine"),
    ("1.1", 3): (
        f"{_FILTERS}::test_a_filter_that_nothing_matches_finds_nothing",
        "tests/service/test_filters.py::test_a_filter_that_nothing_matches_is_an_empty_answer",
    ),
    ("1.2", 1): (
        f"{_CLIENT}::test_search_list_and_count_read_an_expression_alike",
        f"{_CLIENT}::test_delete_reads_an_expression_as_search_does",
    ),
    ("1.2", 2): (f"{_CLIENT}::test_a_malformed_expression_is_refused_with_its_position",),
    ("1.2", 3): (
        "tests/service/test_filters.py::test_a_raw_plus_in_a_query_string_is_and",
        f"{_BODIES}::test_a_body_that_is_wrong_says_how",
    ),
    ("1.3", 1): (f"{_WRITES}::test_of_five_items_the_busy_one_is_sent_again_and_the_bad_one_is_not",),
    ("1.3", 2): (f"{_WRITES}::test_of_five_items_the_busy_one_is_sent_again_and_the_bad_one_is_not",),
    ("1.3", 3): (f"{_WRITES}::test_an_item_that_stays_busy_is_given_up_after_growing_waits",),
    ("1.3", 4): (
        f"{_WRITES}::test_of_five_items_the_busy_one_is_sent_again_and_the_bad_one_is_not",
        f"{_WRITES}::test_a_set_with_a_busy_chunk_is_stored_whole_and_one_with_a_bad_chunk_not_at_all",
    ),
    ("1.4", 1): (f"{_IDENTITY}::test_another_model_is_refused_at_start_by_both_names_and_the_way_out",),
    ("1.4", 2): (
        f"{_IDENTITY}::test_another_model_is_refused_at_start_by_both_names_and_the_way_out",
        f"{_STATES}::test_other_weights_behind_the_same_name_are_noticed_when_the_server_comes_back",
    ),
    ("1.4", 4): (f"{_IDENTITY}::test_another_spelling_of_the_same_model_embeds_nothing_again",),
    ("5.1", 1): (
        f"{_CHUNKS}::test_sizes_that_cannot_work_are_refused_at_once",
        f"{_SPLITTING}::test_a_budget_too_small_for_a_text_is_refused_when_it_is_made",
    ),
    ("5.1", 2): (
        f"{_CHUNKS}::test_every_text_ends_within_two_seconds",
        f"{_SPLITTING}::test_hard_texts_end_soon_within_the_size_and_whole",
    ),
    ("5.1", 3): (
        f"{_CHUNKS}::test_every_chunk_keeps_the_rules",
        f"{_SPLITTING}::test_every_text_is_kept_whole_in_chunks_within_the_budget",
        f"{_SPLITTING}::test_no_emoji_sequence_is_cut_where_a_cut_elsewhere_is_possible",
    ),
    ("5.1", 4): (
        f"{_CHUNKS}::test_a_text_without_text_gives_no_chunk",
        "tests/service/ingest/test_load.py::test_what_holds_no_text_is_counted_by_its_reason",
    ),
    ("5.2", 1): (
        f"{_TABLES}::test_every_chunk_with_rows_has_the_headings_the_header_and_the_rule_once",
        f"{_TABLES}::test_the_chunk_of_row_61_stands_by_itself",
    ),
    ("5.2", 2): (
        f"{_TABLES}::test_each_row_is_whole_in_exactly_one_chunk",
        f"{_TABLES}::test_a_row_that_exceeds_a_chunk_alone_is_divided_and_each_piece_has_the_header",
    ),
    ("5.2", 3): (
        f"{_TABLES}::test_the_introduction_is_in_the_first_piece_only",
        f"{_TABLES}::test_a_line_like_a_table_inside_a_fence_is_left_alone",
    ),
    ("5.2", 4): ("tests/service/test_loading.py::test_row_61_is_found_first_by_its_value_and_column",),
    ("7.1", 1): (f"{_LONG}::test_no_text_beyond_the_window_is_sent_and_every_chunk_gets_its_vector",),
    ("7.1", 2): (
        f"{_LONG}::test_a_chunk_that_cannot_be_divided_enough_is_reported_and_the_39_others_have_vectors",
        f"{_LONG}::test_a_chunk_that_the_server_finds_too_long_after_all_is_divided",
    ),
    ("7.1", 3): (f"{_LONG}::test_what_stands_only_at_the_end_of_a_long_chunk_is_found",),
    ("7.1", 4): ("tests/service/test_embedder_down.py::test_a_refused_text_is_tried_at_growing_distances_and_shown",),
    ("7.2", 1): (
        f"{_DOWN}::test_down_at_the_start_and_back_later",
        f"{_DOWN}::test_hanging_in_mid_service_and_back_again",
    ),
    ("7.2", 2): (
        f"{_DOWN}::test_down_at_the_start_and_back_later",
        f"{_DOWN}::test_a_missing_model_is_named_with_the_way_to_get_it",
    ),
    ("7.2", 3): (
        f"{_DOWN}::test_one_wait_is_long_enough_for_a_cold_model",
        f"{_DOWN}::test_a_missing_model_is_named_with_the_way_to_get_it",
    ),
    ("7.2", 4): (
        f"{_DOWN}::test_down_at_the_start_and_back_later",
        f"{_STATES}::test_a_server_that_is_down_costs_the_vectors_and_nothing_else",
    ),
    ("9.1", 1): (
        f"{_BODIES}::test_a_question_is_plain_words",
        f"{_BODIES}::test_no_operator_has_any_effect",
        f"{_BODIES}::test_a_blank_question_without_a_tag_filter_is_400",
        f"{_BODIES}::test_a_question_beyond_all_measure_is_refused",
    ),
    ("9.1", 2): (
        f"{_BODIES}::test_a_body_that_is_wrong_says_how",
        f"{_BODIES}::test_the_sdk_raises_its_own_error_for_a_refusal",
        f"{_BODIES}::test_a_body_beyond_the_limit_is_413_with_or_without_a_length",
    ),
    ("9.1", 3): (
        f"{_BODIES}::test_a_body_beyond_the_limit_is_413_with_or_without_a_length",
        f"{_BODIES}::test_the_default_limit_is_larger_than_what_the_sdk_sends",
    ),
    ("9.1", 4): (
        f"{_BODIES}::test_a_defect_shows_no_trace",
        f"{_BODIES}::test_a_wrong_field_is_refused_by_name_and_nothing_is_stored",
        "tests/service/api/test_openapi.py::test_an_operation_keeps_to_its_description",
    ),
    ("9.2", 1): (
        f"{_CUT}::test_a_write_goes_on_when_its_client_hangs_up",
        f"{_CUT}::test_after_sigkill_at_any_moment_the_page_is_old_or_new_without_repair",
        f"{_WRITES}::test_a_replacement_cut_off_anywhere_leaves_the_old_set_or_the_new_one",
    ),
    ("9.2", 2): (
        f"{_CUT}::test_a_write_goes_on_when_its_client_hangs_up",
        f"{_CUT}::test_two_clients_replace_at_once_and_one_version_stands_whole",
    ),
    ("9.2", 3): (
        f"{_CUT}::test_sigterm_in_mid_write_ends_in_time_with_the_old_or_the_new_version",
        f"{_CUT}::test_new_requests_are_refused_once_a_stop_has_begun",
    ),
    ("9.2", 4): (f"{_CUT}::test_sigterm_with_an_embedding_call_and_an_idle_connection_open_leaves_nothing_behind",),
}

# What a line says of a part that does not exist yet, and where it belongs.
LATER: Final[dict[tuple[str, int], str]] = {
    ("1.2", 4): "adapters of other frameworks do not exist yet",
    ("1.4", 3): "re-embedding comes with `reindex`; until then another model is refused",
}
