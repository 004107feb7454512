#include "engine/curate/filter/stop_words.h"

#include <unordered_map>

namespace longhaul {
namespace {

using StopWords = std::unordered_set<std::string_view>;

const std::unordered_map<std::string_view, StopWords>& lists() {
  static const std::unordered_map<std::string_view, StopWords> table = {
      {"en", {"the", "be", "to", "of", "and", "that", "have", "with"}},
      {"de", {"der", "die", "das", "und", "in", "zu", "den", "ist", "von", "mit", "nicht", "ein", "eine", "auf"}},
      {"fr", {"le", "la", "les", "de", "des", "du", "et", "un", "une", "est", "que", "qui", "en", "pour", "dans"}},
      {"es", {"el", "la", "los", "las", "de", "del", "y", "que", "en", "un", "una", "se", "por", "con", "para"}},
      {"pt", {"o", "a", "os", "as", "de", "do", "da", "e", "que", "em", "um", "uma", "para", "com", "se"}},
      {"it", {"il", "la", "di", "del", "della", "e", "che", "in", "un", "una", "per", "con", "non", "si", "le"}},
      {"ca", {"el", "la", "els", "les", "de", "del", "i", "que", "en", "un", "una", "per", "amb", "es", "no"}},
      {"sv", {"och", "i", "att", "det", "som", "en", "p\u00E5", "\u00E4r", "av", "f\u00F6r", "med", "till", "den"}},
      {"da", {"og", "i", "at", "det", "som", "en", "p\u00E5", "er", "af", "for", "med", "til", "den", "de"}},
      {"no", {"og", "i", "\u00E5", "det", "som", "en", "p\u00E5", "er", "av", "for", "med", "til", "den", "de"}},
      {"pl", {"i", "w", "na", "z", "do", "\u017Ce", "si\u0119", "nie", "jest", "to", "od", "o", "jak", "dla"}},
      {"cs", {"a", "v", "na", "se", "je", "\u017Ee", "s", "z", "do", "to", "pro", "nebo", "jsou", "i"}},
      {"hu", {"a", "az", "\u00E9s", "egy", "hogy", "nem", "is", "ez", "van", "meg", "csak", "vagy", "ha"}},
      {"fi", {"ja", "on", "ei", "ett\u00E4", "se", "oli", "joka", "tai", "kun", "my\u00F6s", "ovat", "jos"}},
      {"ro", {"\u0219i", "\u015Fi", "de", "\u00EEn", "la", "cu", "nu", "o", "un", "pe", "este", "s\u0103", "din"}},
      {"tr", {"ve", "bir", "bu", "da", "de", "i\u00E7in", "ile", "olan", "olarak", "gibi", "ne", "veya"}},
      {"vi", {"v\u00E0", "c\u1EE7a", "l\u00E0", "c\u00E1c", "c\u00F3", "m\u1ED9t", "trong", "cho", "kh\u00F4ng"}},
      {"id", {"dan", "yang", "di", "untuk", "dari", "dengan", "ini", "pada", "adalah", "tidak", "ke"}},
      {"ru",
       {"\u0438", "\u0432", "\u043D\u0430", "\u043D\u0435", "\u0447\u0442\u043E", "\u0441", "\u043F\u043E",
        "\u044D\u0442\u043E", "\u043A\u0430\u043A", "\u0434\u043B\u044F", "\u0438\u0437", "\u043A"}},
      {"uk",
       {"\u0456", "\u0432", "\u043D\u0430", "\u043D\u0435", "\u0449\u043E", "\u0437", "\u0442\u0430", "\u0434\u043E",
        "\u0446\u0435", "\u0434\u043B\u044F", "\u044F\u043A", "\u0443"}},
      {"el",
       {"\u03BA\u03B1\u03B9", "\u03C4\u03BF", "\u03B7", "\u03BF", "\u03C4\u03B7\u03C2", "\u03BD\u03B1",
        "\u03C4\u03BF\u03C5", "\u03C3\u03C4\u03BF", "\u03BC\u03B5", "\u03B3\u03B9\u03B1", "\u03B1\u03C0\u03CC"}},
      {"ar",
       {"\u0641\u064A", "\u0645\u0646", "\u0639\u0644\u0649", "\u0625\u0644\u0649", "\u0623\u0646",
        "\u0647\u0630\u0627", "\u0647\u0630\u0647", "\u0627\u0644\u062A\u064A", "\u0639\u0646", "\u0648",
        "\u0645\u0639", "\u0644\u0627"}},
      {"fa",
       {"\u0648", "\u062F\u0631", "\u0628\u0647", "\u0627\u0632", "\u06A9\u0647", "\u0627\u06CC\u0646", "\u0631\u0627",
        "\u0628\u0627", "\u0627\u0633\u062A", "\u0622\u0646"}},
      {"he",
       {"\u05E9\u05DC", "\u05D0\u05EA", "\u05E2\u05DC", "\u05DC\u05D0", "\u05D4\u05D5\u05D0", "\u05D6\u05D4",
        "\u05E2\u05DD", "\u05D0\u05D5", "\u05DB\u05D9", "\u05D2\u05DD"}},
      {"hi",
       {"\u0915\u0947", "\u0915\u093E", "\u092E\u0947\u0902", "\u0915\u0940", "\u0939\u0948", "\u0938\u0947",
        "\u0915\u094B", "\u0914\u0930", "\u0939\u0948\u0902", "\u092A\u0930", "\u0928\u0947"}}};
  return table;
}

}  // namespace

const std::unordered_set<std::string_view>* stop_words_of(std::string_view language) {
  const auto found = lists().find(language.substr(0, language.find('-')));
  if (found != lists().end()) return &found->second;
  return language == "nb" || language == "nn" ? stop_words_of("no") : nullptr;
}

}  // namespace longhaul
