#include "engine/curate/filter/sites.h"

#include <algorithm>

#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "engine/curate/html/html_text.h"

namespace longhaul {
namespace {

constexpr std::size_t sampled_pages = 8;

bool is_page(const InputFile& file) {
  return file.type && file.type->is_page && file.refusal.empty();
}

std::size_t common_folder(const std::vector<InputFile>& files) {
  std::string_view common;
  bool first = true;
  for (const InputFile& file : files) {
    if (!is_page(file)) continue;
    const std::string_view folder = std::string_view(file.source).substr(0, file.source.rfind('/') + 1);
    if (first) common = folder;
    first = false;
    const auto end = std::mismatch(common.begin(), common.end(), folder.begin(), folder.end()).first;
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  return common.rfind('/') + 1;  // 0 where there is none
}

RepeatedBlocks look_at_site(const std::vector<const InputFile*>& pages, const CurateSettings& settings) {
  const std::size_t count = std::min(pages.size(), sampled_pages);
  std::vector<std::vector<HtmlBlock>> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = read_input(*pages[i * pages.size() / count], settings.page_bytes_max.value);
    if (!bytes.ok() || static_cast<std::int64_t>(bytes->size()) > settings.page_bytes_max.value) continue;
    blocks.push_back(page_blocks(*bytes));
  }
  return repeated_blocks(blocks);
}

}  // namespace

std::string Sites::site_of(const InputFile& file, const PageNamer& namer) const {
  const std::size_t slash = file.source.find('/', std::min(common_, file.source.size()));
  const std::string folder = slash == std::string::npos ? "" : file.source.substr(0, slash);
  return format("{}\n{}", folder, namer.name(file.source).language);
}

Sites Sites::look_at(const std::vector<InputFile>& files, const PageNamer& namer, const CurateSettings& settings) {
  Sites sites;
  if (!settings.site_repetition) return sites;
  sites.common_ = common_folder(files);
  std::map<std::string, std::vector<const InputFile*>> pages;
  for (const InputFile& file : files) {
    if (is_page(file)) pages[sites.site_of(file, namer)].push_back(&file);
  }
  std::erase_if(pages, [](const auto& site) { return site.second.size() < site_pages_min; });
  std::vector<const std::pair<const std::string, std::vector<const InputFile*>>*> order;
  for (const auto& site : pages) order.push_back(&site);
  std::vector<RepeatedBlocks> found(order.size());
  parallel_for(order.size(), settings.threads,
               [&](std::size_t i) { found[i] = look_at_site(order[i]->second, settings); });
  for (std::size_t i = 0; i < order.size(); ++i) sites.sites_.emplace(order[i]->first, std::move(found[i]));
  return sites;
}

const RepeatedBlocks* Sites::repeated_on(const InputFile& file, const PageNamer& namer) const {
  if (sites_.empty() || !is_page(file)) return nullptr;
  const auto site = sites_.find(site_of(file, namer));
  return site == sites_.end() ? nullptr : &site->second;
}

}  // namespace longhaul
