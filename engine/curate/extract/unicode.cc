#include "engine/curate/extract/unicode.h"

#include <unicode/normalizer2.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/ucnv.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <memory>

#include "base/text/text.h"

namespace longhaul {

char32_t next_code_point(std::string_view text, std::size_t& pos) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(pos);
  if (lead < 0x80) {
    ++pos;
    return lead;
  }
  int tail = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC2 ? 1 : 0;
  if (tail == 0 || lead > 0xF4) {
    ++pos;
    return 0xFFFD;
  }
  char32_t c = lead & (0x3F >> tail);
  ++pos;
  for (; tail > 0; --tail, ++pos) {
    if (pos >= text.size() || (byte(pos) & 0xC0) != 0x80) return 0xFFFD;
    c = (c << 6) | (byte(pos) & 0x3F);
  }
  return c;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | (c >> 6));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | (c >> 12));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (c >> 18));
    text += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_known_charset(const std::string& charset) {
  UErrorCode status = U_ZERO_ERROR;
  UConverter* converter = ucnv_open(charset.c_str(), &status);
  if (converter) ucnv_close(converter);
  return U_SUCCESS(status) && converter != nullptr;
}

std::string convert_to_utf8(std::string_view bytes, const std::string& charset) {
  UErrorCode status = U_ZERO_ERROR;
  UConverter* converter = ucnv_open(charset.c_str(), &status);
  if (U_FAILURE(status) || !converter) return {};
  // 16-bit units never outnumber the bytes of any charset ICU converts from by more than two.
  icu::UnicodeString wide;
  const auto capacity = static_cast<std::int32_t>(bytes.size() * 2 + 16);
  char16_t* buffer = wide.getBuffer(capacity);
  const std::int32_t length = buffer ? ucnv_toUChars(converter, buffer, capacity, bytes.data(),
                                                     static_cast<std::int32_t>(bytes.size()), &status)
                                     : 0;
  wide.releaseBuffer(U_SUCCESS(status) ? length : 0);
  ucnv_close(converter);
  std::string text;
  wide.toUTF8String(text);
  return text;
}

std::string normalize_nfc(std::string_view text) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  if (U_FAILURE(status)) return std::string(text);
  const icu::StringPiece piece(text.data(), static_cast<std::int32_t>(text.size()));
  if (nfc->isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return std::string(text);
  status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  nfc->normalizeUTF8(0, piece, sink, nullptr, status);
  return U_SUCCESS(status) ? result : std::string(text);
}

bool is_letter(char32_t c) {
  if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
  return u_isUAlphabetic(static_cast<UChar32>(c));
}

bool is_digit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return u_isdigit(static_cast<UChar32>(c));
}

bool is_word_char(char32_t c) {
  if (c < 0x80) return is_letter(c) || is_digit(c);
  const auto mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (mask & (U_GC_L_MASK | U_GC_M_MASK | U_GC_N_MASK)) != 0;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool is_control(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  if (c == 0x200C || c == 0x200D) return false;  // joiners shape Persian and Indic words
  const auto mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (mask & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CS_MASK | U_GC_CO_MASK | U_GC_CN_MASK)) != 0;
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return static_cast<char32_t>(u_foldCase(static_cast<UChar32>(c), U_FOLD_CASE_DEFAULT));
}

bool is_dictionary_script(char32_t c) {
  if (c < 0x0E00) return false;
  if (c <= 0x0EFF) return true;                                                   // Thai, Lao
  if ((c >= 0x1000 && c <= 0x109F) || (c >= 0x1780 && c <= 0x17FF)) return true;  // Myanmar, Khmer
  return (c >= 0xA9E0 && c <= 0xA9FF) || (c >= 0xAA60 && c <= 0xAA7F);            // Myanmar's extensions
}

bool is_unspaced_script(char32_t c) {
  if (is_dictionary_script(c)) return true;
  if (c < 0x3005) return false;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &status);
  return script == USCRIPT_HAN || script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA || c == 0x30FC;
}

bool is_sentence_end(char32_t c) {
  if (c < 0x80) return c == '.' || c == '!' || c == '?';
  switch (c) {
    case 0x2026:  // ellipsis
    case 0xFF0E:  // full stop of East Asian width
    case 0x0E2F:  // Thai: what is left out
    case 0x0E5A:
    case 0x0E5B:  // Thai: ends of a passage and of a work
    case 0x17D4:
    case 0x17D5:
    case 0x17DA:  // Khmer
    case 0x0F08:
    case 0x0F0D:
    case 0x0F0E:
    case 0x0F0F:
    case 0x0F10:
    case 0x0F11:
    case 0x0F12:  // Tibetan
    case 0x1362:
    case 0x1367:
    case 0x1368: return true;  // Ethiopic
    default: return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_S_TERM);
  }
}

namespace {

// One per thread: opening it reads ICU's rules.
UBreakIterator* word_iterator() {
  struct Close {
    void operator()(UBreakIterator* iterator) const { ubrk_close(iterator); }
  };
  thread_local const std::unique_ptr<UBreakIterator, Close> iterator = [] {
    UErrorCode status = U_ZERO_ERROR;
    UBreakIterator* opened = ubrk_open(UBRK_WORD, "th", nullptr, 0, &status);
    return std::unique_ptr<UBreakIterator, Close>(U_SUCCESS(status) ? opened : nullptr);
  }();
  return iterator.get();
}

}  // namespace

std::vector<std::uint32_t> word_ends(std::string_view text) {
  std::vector<std::uint32_t> ends;
  UErrorCode status = U_ZERO_ERROR;
  UBreakIterator* iterator = word_iterator();
  UText utf8 = UTEXT_INITIALIZER;
  utext_openUTF8(&utf8, text.data(), static_cast<std::int64_t>(text.size()), &status);
  if (iterator && U_SUCCESS(status)) {
    ubrk_setUText(iterator, &utf8, &status);
    if (U_SUCCESS(status)) {
      ubrk_first(iterator);
      for (std::int32_t at = ubrk_next(iterator); at != UBRK_DONE; at = ubrk_next(iterator))
        ends.push_back(static_cast<std::uint32_t>(at));
    }
  }
  utext_close(&utf8);
  if (ends.empty() || ends.back() != text.size()) ends.push_back(static_cast<std::uint32_t>(text.size()));
  return ends;
}

int display_columns(char32_t c) {
  if (c < 0x300) return 1;
  const auto mask = U_GET_GC_MASK(static_cast<UChar32>(c));
  if (mask & (U_GC_MN_MASK | U_GC_ME_MASK)) return 0;
  const int width = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

std::int64_t display_columns(std::string_view text) {
  std::int64_t columns = 0;
  for (std::size_t pos = 0; pos < text.size();) columns += display_columns(next_code_point(text, pos));
  return columns;
}

}  // namespace longhaul
