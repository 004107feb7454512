#include "engine/curate/html/html_text.h"

#include <algorithm>
#include <vector>

#include "base/text/text.h"
#include "engine/curate/extract/charset.h"
#include "engine/curate/html/html_blocks.h"
#include "engine/curate/html/html_boilerplate.h"
#include "engine/curate/html/html_edges.h"
#include "engine/curate/html/html_tree.h"

namespace longhaul {
namespace {

// Positive: reads like content. The unit is one column of text.
double block_weight(const HtmlBlock& block, bool bad) {
  const double columns = block.columns;
  const double density = block.link_density();
  if (bad) return -std::min(columns, 300.0);
  if (is_heading(block.tag)) return density > 0.5 ? -columns : 0;
  if (block.tag == HtmlTag::pre) return columns;
  const bool item = block.tag == HtmlTag::li || block.tag == HtmlTag::dt;
  // A sentence that is half a link is a sentence.
  const bool sentence = columns - block.link_columns >= 50 && block.commas > 0;
  if (density > (sentence ? 0.75 : item ? 0.5 : 0.6)) return -columns;
  if (columns < 25 && block.commas == 0) return -10;
  const double weight = columns * (1 - density) * (item ? 0.6 : 1.0);
  return columns < 60 && block.commas == 0 ? 0.2 * weight : weight;
}

// The element with the largest sum; of several, the deepest.
std::size_t best_element(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks,
                         const std::vector<double>& weights) {
  std::vector<double> sum(tree.nodes.size(), 0);
  for (std::size_t b = 0; b < blocks.size(); ++b) sum[static_cast<std::size_t>(blocks[b].element)] += weights[b];
  for (std::size_t i = tree.nodes.size(); i-- > 1;) sum[static_cast<std::size_t>(tree.nodes[i].parent)] += sum[i];
  std::size_t best = 0;
  for (std::size_t i = 1; i < sum.size(); ++i) {
    if (sum[i] > 0 && sum[i] >= sum[best]) best = i;
  }
  return best;
}

// The line below the first row of a table in Markdown.
std::string rule_of_row(const HtmlBlock& row) {
  std::string rule = "|";
  for (int i = 0; i < row.cells; ++i) rule += " --- |";
  return rule;
}

std::string join_blocks(const std::vector<const HtmlBlock*>& blocks, bool markdown_tables) {
  std::string text;
  const HtmlBlock* before = nullptr;
  for (const HtmlBlock* block : blocks) {
    const bool row = before && block->tag == before->tag && (block->tag == HtmlTag::li || block->tag == HtmlTag::tr);
    if (before) text += row ? "\n" : "\n\n";
    if (block->list_start) text += "- ";
    if (markdown_tables && block->cells > 0) {
      text += format("| {} |", block->text);
      if (!row || before->table != block->table) text += format("\n{}", rule_of_row(*block));
    } else {
      text += block->text;
    }
    before = block;
  }
  return text;
}

// Is `block`, the last of `waiting`, a row or an item without links that stands directly behind what is selected?
bool continues_list(const HtmlBlock& block, const std::vector<const HtmlBlock*>& selected,
                    const std::vector<const HtmlBlock*>& waiting) {
  const bool row = block.tag == HtmlTag::li || block.tag == HtmlTag::tr || block.tag == HtmlTag::dt ||
                   block.tag == HtmlTag::dd || block.tag == HtmlTag::pre;
  return row && block.link_density() < 0.2 && !selected.empty() && waiting.size() == 1;
}

// The blocks of the chosen element without what reads like boilerplate. Short ones stay where content follows closely
// (headings, one-word list items, the lines of a table); trailing ones go.
std::vector<const HtmlBlock*> select_blocks(const HtmlTree& tree, const std::vector<HtmlBlock>& blocks,
                                            const std::vector<double>& weights, const std::vector<char>& bad,
                                            std::size_t chosen) {
  std::vector<const HtmlBlock*> selected, waiting;
  const auto inside = [&](const HtmlBlock& block) {
    const auto element = static_cast<std::size_t>(block.element);
    return element >= chosen && block.element < tree.nodes[chosen].end;
  };
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const HtmlBlock& block = blocks[b];
    if (!inside(block) || bad[b]) continue;
    if (weights[b] > 0) {
      selected.insert(selected.end(), waiting.begin(), waiting.end());
      waiting.clear();
      selected.push_back(&block);
    } else if (weights[b] > -20 || block.link_density() < 0.5) {
      if (selected.empty() && is_label(block)) continue;  // above the text
      waiting.push_back(&block);
      // What follows a row of a table or an item of a list in it belongs to it, also at the end.
      if (continues_list(block, selected, waiting)) {
        selected.insert(selected.end(), waiting.begin(), waiting.end());
        waiting.clear();
      }
    }
  }
  drop_edges(tree, selected);
  return selected;
}

std::string clip(std::string_view bytes, const HtmlTextSettings& settings) {
  return std::string(bytes.substr(0, static_cast<std::size_t>(settings.bytes_max)));
}

}  // namespace

PageText extract_main_text(std::string_view bytes, const HtmlTextSettings& settings, const RepeatedBlocks* repeated) {
  DecodedText decoded = decode_bytes(clip(bytes, settings), true);
  const HtmlTree tree = parse_html(decoded.text, settings.depth_max);
  const std::vector<HtmlBlock> blocks = split_into_blocks(tree);
  const std::vector<PagePart> parts = mark_boilerplate(tree, blocks);
  std::vector<char> bad = repeated ? mark_repeated(blocks, *repeated) : std::vector<char>(blocks.size(), 0);
  PageText page;
  std::vector<double> weights(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const PagePart part = parts[static_cast<std::size_t>(blocks[b].element)];
    if (bad[b] && part == PagePart::content) page.repeated_bytes += static_cast<std::int64_t>(blocks[b].text.size());
    bad[b] = bad[b] || part != PagePart::content;
    weights[b] = part == PagePart::inset ? 0 : block_weight(blocks[b], bad[b]);
  }
  const std::size_t chosen = best_element(tree, blocks, weights);
  // The parser turns some impossible character references into bytes that are no character.
  page.title = repair_utf8(tree.title.empty() ? tree.headline : tree.title);
  page.text = join_blocks(select_blocks(tree, blocks, weights, bad, chosen), settings.markdown_tables);
  page.author = repair_utf8(tree.author);
  page.date = repair_utf8(tree.date);
  page.url = repair_utf8(tree.url);
  page.language = repair_utf8(tree.language);
  page.charset = std::move(decoded.charset);
  return page;
}

std::vector<HtmlBlock> page_blocks(std::string_view bytes, const HtmlTextSettings& settings) {
  return split_into_blocks(parse_html(decode_bytes(clip(bytes, settings), true).text, settings.depth_max));
}

PageText extract_all_text(std::string_view bytes, const HtmlTextSettings& settings) {
  DecodedText decoded = decode_bytes(clip(bytes, settings), true);
  const HtmlTree tree = parse_html(decoded.text, settings.depth_max);
  const std::vector<HtmlBlock> blocks = split_into_blocks(tree);
  std::vector<const HtmlBlock*> all;
  for (const HtmlBlock& block : blocks) all.push_back(&block);
  PageText page;
  page.title = repair_utf8(tree.title);
  page.text = join_blocks(all, settings.markdown_tables);
  page.charset = std::move(decoded.charset);
  return page;
}

}  // namespace longhaul
