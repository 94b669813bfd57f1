package knowledgestore.testnode;

import java.util.HashMap;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.UnaryOperator;

import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.core.FlattenGraphFilter;
import org.apache.lucene.analysis.core.WhitespaceTokenizer;
import org.apache.lucene.analysis.en.EnglishAnalyzer;
import org.apache.lucene.analysis.en.EnglishMinimalStemFilter;
import org.apache.lucene.analysis.en.EnglishPossessiveFilter;
import org.apache.lucene.analysis.en.KStemFilter;
import org.apache.lucene.analysis.en.PorterStemFilter;
import org.apache.lucene.analysis.miscellaneous.ASCIIFoldingFilter;
import org.apache.lucene.analysis.miscellaneous.KeywordRepeatFilter;
import org.apache.lucene.analysis.miscellaneous.RemoveDuplicatesTokenFilter;
import org.apache.lucene.analysis.miscellaneous.WordDelimiterGraphFilter;
import org.apache.lucene.analysis.ngram.EdgeNGramTokenFilter;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.index.analysis.AbstractIndexAnalyzerProvider;
import org.elasticsearch.index.analysis.AbstractTokenFilterFactory;
import org.elasticsearch.index.analysis.AbstractTokenizerFactory;
import org.elasticsearch.index.analysis.AnalyzerProvider;
import org.elasticsearch.index.analysis.TokenFilterFactory;
import org.elasticsearch.index.analysis.TokenizerFactory;
import org.elasticsearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.elasticsearch.plugins.AnalysisPlugin;
import org.elasticsearch.plugins.Plugin;

/**
 * The part of the distribution's module analysis-common that the index templates name. That module is not published, the
 * Lucene classes that it wraps are: each piece stands here under its official name, with its official defaults.
 */
public final class AnalysisPieces extends Plugin implements AnalysisPlugin {
    private static final Map<String, Integer> WORD_DELIMITER_FLAGS_ON = Map.of(
        "generate_word_parts", WordDelimiterGraphFilter.GENERATE_WORD_PARTS,
        "generate_number_parts", WordDelimiterGraphFilter.GENERATE_NUMBER_PARTS,
        "split_on_case_change", WordDelimiterGraphFilter.SPLIT_ON_CASE_CHANGE,
        "split_on_numerics", WordDelimiterGraphFilter.SPLIT_ON_NUMERICS,
        "stem_english_possessive", WordDelimiterGraphFilter.STEM_ENGLISH_POSSESSIVE);
    private static final Map<String, Integer> WORD_DELIMITER_FLAGS_OFF = Map.of(
        "catenate_words", WordDelimiterGraphFilter.CATENATE_WORDS,
        "catenate_numbers", WordDelimiterGraphFilter.CATENATE_NUMBERS,
        "catenate_all", WordDelimiterGraphFilter.CATENATE_ALL,
        "preserve_original", WordDelimiterGraphFilter.PRESERVE_ORIGINAL);

    private final Map<String, AnalysisProvider<TokenFilterFactory>> filters = new HashMap<>();

    public AnalysisPieces() {
        simple("porter_stem", PorterStemFilter::new);
        simple("kstem", KStemFilter::new);
        simple("keyword_repeat", KeywordRepeatFilter::new);
        simple("remove_duplicates", RemoveDuplicatesTokenFilter::new);
        simple("flatten_graph", FlattenGraphFilter::new);
        configured("stemmer", AnalysisPieces::stem);
        configured("word_delimiter_graph", AnalysisPieces::splitWords);
        configured("asciifolding", (tokens, settings) ->
            new ASCIIFoldingFilter(tokens, settings.getAsBoolean("preserve_original", false)));
        configured("edge_ngram", (tokens, settings) -> new EdgeNGramTokenFilter(
            tokens, settings.getAsInt("min_gram", 1), settings.getAsInt("max_gram", 2), settings.getAsBoolean("preserve_original", false)));
    }

    private void simple(String name, UnaryOperator<TokenStream> filter) {
        configured(name, (tokens, settings) -> filter.apply(tokens));
    }

    private void configured(String name, BiFunction<TokenStream, Settings, TokenStream> filter) {
        filters.put(name, (index, environment, given, settings) -> new AbstractTokenFilterFactory(given) {
            @Override
            public TokenStream create(TokenStream tokens) {
                return filter.apply(tokens, settings);
            }
        });
    }

    private static TokenStream stem(TokenStream tokens, Settings settings) {
        String language = settings.get("language", settings.get("name", "porter"));
        return switch (language) {
            case "porter", "english" -> new PorterStemFilter(tokens);
            case "light_english", "lightEnglish", "kstem" -> new KStemFilter(tokens);
            case "minimal_english", "minimalEnglish" -> new EnglishMinimalStemFilter(tokens);
            case "possessive_english", "possessiveEnglish" -> new EnglishPossessiveFilter(tokens);
            default -> throw new IllegalArgumentException("the test node knows no stemmer for [" + language + "]; add it here");
        };
    }

    private static TokenStream splitWords(TokenStream tokens, Settings settings) {
        int flags = 0;
        for (var option : WORD_DELIMITER_FLAGS_ON.entrySet()) {
            flags |= settings.getAsBoolean(option.getKey(), true) ? option.getValue() : 0;
        }
        for (var option : WORD_DELIMITER_FLAGS_OFF.entrySet()) {
            flags |= settings.getAsBoolean(option.getKey(), false) ? option.getValue() : 0;
        }
        return new WordDelimiterGraphFilter(tokens, flags, CharArraySet.EMPTY_SET);
    }

    @Override
    public Map<String, AnalysisProvider<TokenFilterFactory>> getTokenFilters() {
        return Map.copyOf(filters);
    }

    @Override
    public Map<String, AnalysisProvider<TokenizerFactory>> getTokenizers() {
        return Map.of("whitespace", (index, environment, name, settings) -> new AbstractTokenizerFactory(name) {
            @Override
            public Tokenizer create() {
                return new WhitespaceTokenizer();
            }
        });
    }

    @Override
    public Map<String, AnalysisProvider<AnalyzerProvider<? extends Analyzer>>> getAnalyzers() {
        return Map.of("english", (index, environment, name, settings) -> new English(name));
    }

    private static final class English extends AbstractIndexAnalyzerProvider<EnglishAnalyzer> {
        private final EnglishAnalyzer analyzer = new EnglishAnalyzer();

        English(String name) {
            super(name);
        }

        @Override
        public EnglishAnalyzer get() {
            return analyzer;
        }
    }
}
