#include "engine/curate/rules/document_filters.h"

namespace longhaul {

const std::vector<DocumentFilter>& document_filters() {
  static const std::vector<DocumentFilter> filters = {
      {"word", word_filter},
      {"stop_word", stop_word_filter},
      {"placeholder", placeholder_filter},
      {"line_shape", line_shape_filter},
      {"line_length", line_length_filter},
      {"repetition", repetition_filter},
      {"ngram", ngram_filter},
  };
  return filters;
}

}  // namespace longhaul
