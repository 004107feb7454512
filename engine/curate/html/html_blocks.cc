#include "engine/curate/html/html_blocks.h"

#include "engine/curate/extract/unicode.h"

namespace longhaul {
namespace {

class BlockBuilder {
 public:
  explicit BlockBuilder(const HtmlTree& tree) : tree_(tree) {}

  std::vector<HtmlBlock> run() {
    visit(0, {0, HtmlTag::other, false, false});
    flush();
    return std::move(blocks_);
  }

 private:
  struct Around {  // what encloses the text
    std::int32_t element;
    HtmlTag tag;
    bool preformatted;
    bool link;
    bool data_table = false;  // the nearest table holds data
    std::int32_t table = 0;   // that table
    bool row = false;         // within a row of it
  };

  static HtmlTag block_kind(HtmlTag tag, HtmlTag outer) {
    switch (tag) {
      case HtmlTag::p:
        // The paragraph of a list item is that item.
        return outer == HtmlTag::li || outer == HtmlTag::dd || outer == HtmlTag::blockquote ? outer : tag;
      case HtmlTag::li:
      case HtmlTag::dt:
      case HtmlTag::dd:
      case HtmlTag::pre:
      case HtmlTag::tr:
      case HtmlTag::caption:
      case HtmlTag::figcaption:
      case HtmlTag::blockquote: return tag;
      default:
        return is_heading(tag)                                                     ? tag
               : is_heading(outer) || outer == HtmlTag::li || outer == HtmlTag::dd ? outer
                                                                                   : HtmlTag::other;
    }
  }

  void visit(std::int32_t index, Around around) {
    const HtmlNode& node = tree_.nodes[static_cast<std::size_t>(index)];
    if (node.hidden || node.tag == HtmlTag::head) return;
    if (node.tag == HtmlTag::text) return add_text(node.text, around);
    if (node.tag == HtmlTag::br) return line_break(around);
    const bool cell = node.tag == HtmlTag::td || node.tag == HtmlTag::th;
    if (cell) begin_cell(around);
    // A table of data keeps its rows, and listings their lines, whatever stands in them.
    const bool in_row = around.row && node.tag != HtmlTag::tr;
    const bool block = is_block(node.tag) && !cell && !in_row && !around.preformatted;
    if (is_block(node.tag) && !cell && !block) end_line(around);
    if (block) {
      flush();
      if (node.tag == HtmlTag::table) {
        around.data_table = is_data_table(index);
        around.table = index;
      }
      around.row = node.tag == HtmlTag::tr && around.data_table;
      cells_ = 0;
      around.element = index;
      around.tag = block_kind(node.tag, around.tag);
      around.preformatted = around.preformatted || node.tag == HtmlTag::pre;
      if (node.tag == HtmlTag::li) item_open_ = true;
    }
    around.link = around.link || node.link;
    for (std::int32_t child = index + 1; child < node.end; child = tree_.nodes[static_cast<std::size_t>(child)].end) {
      visit(child, around);
    }
    if (block) flush();
    if (is_block(node.tag) && !cell && !block) end_line(around);
  }

  // Rows of several cells with little in each, no table within: not one that only lays out a page.
  bool is_data_table(std::int32_t index) const {
    const HtmlNode& table = tree_.nodes[static_cast<std::size_t>(index)];
    std::size_t rows = 0, cells = 0, bytes = 0;
    for (std::int32_t i = index + 1; i < table.end; ++i) {
      const HtmlNode& node = tree_.nodes[static_cast<std::size_t>(i)];
      if (node.tag == HtmlTag::table || node.tag == HtmlTag::pre) return false;
      rows += node.tag == HtmlTag::tr;
      cells += node.tag == HtmlTag::td || node.tag == HtmlTag::th;
      bytes += node.text.size();
      if (bytes > 400 * (cells + 20)) return false;  // looked at no further: tables may be many
    }
    return rows >= 2 && cells >= 2 * rows - 2 && cells >= 3 && bytes <= 200 * cells;
  }

  void begin_cell(const Around& around) {
    if (!around.row) {
      if (!block_.text.empty()) add_raw(" | ");
      return;
    }
    begin(around);
    while (!block_.text.empty() && block_.text.back() == ' ') block_.text.pop_back();
    block_.table = around.table;
    if (cells_++ > 0) add_raw(block_.text.empty() ? "| " : " | ");
  }

  // What starts a block elsewhere: a new line in a listing, a blank in a cell.
  void end_line(const Around& around) {
    if (block_.text.empty() || block_.text.back() == '\n') return;
    if (around.preformatted && !around.row) {
      block_.text += '\n';
    } else if (block_.text.back() != ' ') {
      block_.text += ' ';
    }
  }

  void begin(const Around& around) {
    if (!block_.text.empty()) return;
    block_.element = around.element;
    block_.tag = around.tag;
    block_.list_start = item_open_ && around.tag == HtmlTag::li;
    item_open_ = false;
  }

  void add_text(const std::string& text, const Around& around) {
    for (std::size_t pos = 0; pos < text.size();) {
      const char32_t c = next_code_point(text, pos);
      if (is_space(c)) {
        if (around.preformatted && (c == '\n' || c == ' ' || c == '\t')) {
          if (!block_.text.empty() || c != '\n') add_blank(c, around);
        } else if (!block_.text.empty() && block_.text.back() != ' ' && block_.text.back() != '\n') {
          block_.text += ' ';
        }
        if (c != U'\u00A0') continue;
        continue;
      }
      breaks_ = 0;
      begin(around);
      append_utf8(block_.text, c);
      const int width = c < 0x300 ? 1 : display_columns(c);
      block_.columns += width;
      if (around.link) block_.link_columns += width;
      if (c == ',' || c == ';' || is_sentence_end(c) || c == 0x3001 || c == 0xFF0C || c == 0x060C) ++block_.commas;
    }
  }

  void add_blank(char32_t c, const Around& around) {
    begin(around);
    append_utf8(block_.text, c);
  }
  void add_raw(const char* text) { block_.text += text; }

  // Two breaks in a row end a paragraph.
  void line_break(const Around& around) {
    if (around.row) return end_line(around);
    if (++breaks_ >= 2 && !around.preformatted) {
      flush();
    } else if (!block_.text.empty()) {
      while (block_.text.back() == ' ') block_.text.pop_back();
      block_.text += '\n';
    }
  }

  void flush() {
    while (!block_.text.empty() &&
           (block_.text.back() == ' ' || block_.text.back() == '\n' || block_.text.back() == '\t' ||
            (cells_ == 0 && block_.text.size() > 2 && block_.text.ends_with(" |")))) {
      block_.text.pop_back();
    }
    block_.cells = cells_;
    if (block_.columns > 0) blocks_.push_back(std::move(block_));
    block_ = HtmlBlock();
    breaks_ = 0;
    cells_ = 0;
  }

  const HtmlTree& tree_;
  std::vector<HtmlBlock> blocks_;
  HtmlBlock block_;
  int breaks_ = 0;
  int cells_ = 0;  // of the row that is open, when its table holds data
  bool item_open_ = false;
};

}  // namespace

std::vector<HtmlBlock> split_into_blocks(const HtmlTree& tree) {
  return BlockBuilder(tree).run();
}

}  // namespace longhaul
