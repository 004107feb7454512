#include "engine/data/tokenizer/nfc.h"

#if defined(LONGHAUL_HAVE_CURATE)
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#endif

namespace longhaul {

#if defined(LONGHAUL_HAVE_CURATE)

namespace {
const icu::Normalizer2* nfc_instance() {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  return U_SUCCESS(status) ? nfc : nullptr;
}
}  // namespace

Status require_nfc() {
  if (nfc_instance()) return {};
  return make_error(ErrorCode::unsupported, "ICU has no normalization data here", "install ICU's data package");
}

std::string compose_nfc(std::string_view text) {
  std::string out;
  UErrorCode status = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  nfc_instance()->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink, nullptr,
                                status);
  LH_ASSERT(U_SUCCESS(status), u_errorName(status));
  return out;
}

#else

Status require_nfc() {
  return make_error(ErrorCode::unsupported, "this build has no ICU, which the NFC normalizer needs",
                    "build with ICU, or use a tokenizer without a normalizer");
}
std::string compose_nfc(std::string_view text) {
  return std::string(text);
}

#endif

}  // namespace longhaul
