// One name for a page in all its languages, from its path alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

// Is this a language tag: "de", "pt-BR", "zh_CN", "zh-Hant"? Two-letter codes are those of ISO 639-1.
bool is_language_tag(std::string_view text);

struct PageIdentity {
  std::string page;      // "debian-handbook/html/sect.apt-get.html"
  std::string language;  // what the path says, lower case, without country ("es"); "" if it says nothing
};

class PageNamer {
 public:
  // `page_key`: see CurateSettings. An invalid expression is an error that names the place.
  static Result<PageNamer> create(const std::string& page_key);
  ~PageNamer();
  PageNamer(PageNamer&&) noexcept;
  PageNamer& operator=(PageNamer&&) noexcept;

  // Folders that are language tags, and language tags between two dots of the file's name, are left out.
  PageIdentity name(const std::string& path) const;  // thread-safe

 private:
  struct Pattern;
  PageNamer();
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace longhaul
