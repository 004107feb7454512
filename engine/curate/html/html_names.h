// What the names that authors give to the parts of a page (class, id, itemprop) say about them. A name is evidence, not
// a verdict: "comments" may hold a discussion, or the chapter of a manual on comments (html_boilerplate.h decides).
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

enum class NameSays {
  nothing,    // no word of page furniture in it
  part,       // a word of page furniture beside others: "related-work", "comment-syntax", "date-objects"
  furniture,  // nothing but words of page furniture: "related-posts", "comments", "share-bar"
  content,    // what a page is there for: "article-body", "entry-content"
};

// The words of an attribute's value in lower case: names between '|', words of a name between blanks. A word ends at
// what is neither letter nor digit, and before a capital: "related-stories postBody" gives "|related stories|post
// body|".
std::string name_words(std::string_view value);

// `words`: as name_words() gives them, of one or several attributes. Whole words only: "making" holds no "king", and
// "operating" no "rating". A plural counts as its word, and "sharebar" as "share bar" since both are known.
NameSays name_says(std::string_view words);

// Does `words` hold this word, or its plural?
bool has_name_word(std::string_view words, std::string_view word);

}  // namespace longhaul
