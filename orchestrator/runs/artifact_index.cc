#include "orchestrator/runs/artifact_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/digest/hash.h"
#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/files/owned_folder.h"
#include "base/system/user_names.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr std::uint64_t pointer_bytes_max = 1 << 16, mark_bytes_max = 1 << 16;

std::string pointer_path(const std::string& root, const std::string& key) {
  return join_path(root, key + ".json");
}

Error disbelieved(const std::string& path, const struct stat& info, const std::string& why) {
  return make_error(ErrorCode::invalid_input, format("{} is {}: {}", path, kind_and_owner(info), why),
                    "the stage is run instead; artifacts are believed from yourself and from the site's `group`");
}

// Whether others than its owner and its group may put something else in the place of what has this path.
Status check_way_to(const std::string& path) {
  for (std::string folder = parent_path(path);; folder = parent_path(folder)) {
    struct stat info{};
    if (::stat(folder.c_str(), &info) != 0) return errno_error(ErrorCode::not_found, "cannot look at " + folder, errno);
    if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0)
      return disbelieved(folder, info, "anybody may exchange what lies in it");
    if (folder == "/" || folder.empty()) return {};
  }
}

Status check_owner(const std::string& path, const struct stat& info, const ArtifactTrust& trust) {
  if ((info.st_mode & S_IWOTH) != 0) return disbelieved(path, info, "anybody may change it");
  if (info.st_uid == trust.self) return {};
  if (std::ranges::find(trust.groups, info.st_gid) == trust.groups.end())
    return disbelieved(path, info, "neither yours nor of a group of this site");
  return check_way_to(path);
}

// Opened, believed, and read through the same descriptor.
Result<FileDescriptor> open_believed(const std::string& path, int flags, const ArtifactTrust& trust,
                                     struct stat& info) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags));
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0)
    return errno_error(ErrorCode::not_found, "cannot open " + path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return disbelieved(path, info, "no file");
  LH_CHECK(check_owner(path, info, trust));
  return fd;
}

std::string by_descriptor(const FileDescriptor& fd) {
  return format("/proc/self/fd/{}", fd.get());
}

// Every file of the manifest, no link among them, of the same owner, and with the digest that the manifest says.
Status verify_anothers(const std::string& folder, uid_t owner, const Manifest& manifest, const ArtifactTrust& trust) {
  const Ownership wanted{.owners = {owner, trust.self}, .forbidden = S_IWOTH, .one_name = false};
  std::vector<std::string> problems;
  for (const ManifestFile& file : manifest.files) {
    const auto fd = open_file_below(folder, file.path, wanted);
    const auto digest = fd.ok() ? hash_file(by_descriptor(*fd)) : Result<std::string>(fd.error());
    if (!digest.ok())
      problems.push_back(digest.error().what);
    else if (*digest != file.xxh3)
      problems.push_back(join_path(folder, file.path) + " differs from its manifest's digest");
  }
  if (problems.empty()) return {};
  return make_error(ErrorCode::corrupt, join(problems, "; "), "the stage is run instead; inform its owner");
}

// That this user has verified this artifact: a file of their own, beside the pointers.
std::string marks_folder(const std::string& root, const ArtifactTrust& trust) {
  return join_path(root, format(".verified-{}", trust.self));
}
bool has_mark(const std::string& path, const std::string& text) {
  const auto mark = read_owned_file(path, {}, mark_bytes_max);
  return mark.ok() && *mark == text;
}
void leave_mark(const std::string& folder, const std::string& path, const std::string& text) {
  if (!make_directories(folder).ok()) return;  // verified again the next time
  (void)write_file_atomic(path, text, 0600).ok();
}

Status verify_once(const std::string& root, const std::string& key, const Manifest& manifest, ArtifactSeen& artifact,
                   const ArtifactTrust& trust) {
  const std::string folder = marks_folder(root, trust), path = join_path(folder, key);
  const std::string text = artifact.folder + "\n" + artifact.digest + "\n";
  artifact.verified = has_mark(path, text);
  if (artifact.verified || !trust.verify) return {};
  LH_CHECK(verify_anothers(artifact.folder, static_cast<uid_t>(artifact.uid), manifest, trust));
  artifact.verified = true;
  leave_mark(folder, path, text);
  return {};
}

Result<ArtifactSeen> artifact_of(const std::string& folder, const std::string& key, Manifest& manifest) {
  LH_TRY(manifest, read_manifest(folder));
  if (manifest.key != key)
    return make_error(ErrorCode::conflict, folder + " holds the result of another task, " + manifest.key);
  LH_CHECK(verify_artifact(folder, manifest, false));
  return ArtifactSeen{folder, manifest.digest(), manifest.figures};
}

}  // namespace

ArtifactTrust artifact_trust(const std::string& site_group) {
  ArtifactTrust trust{.self = ::geteuid()};
  if (site_group.empty() || trust.self == 0) return trust;
  if (const auto id = group_id(site_group); id.ok()) trust.groups = {*id};
  return trust;
}

Result<ArtifactSeen> read_artifact(const std::string& folder, const std::string& key) {
  Manifest manifest;
  return artifact_of(folder, key, manifest);
}

Result<ArtifactSeen> find_artifact(const std::string& root, const std::string& key, const ArtifactTrust& trust) {
  if (root.empty()) return make_error(ErrorCode::not_found, "no artifact root");
  struct stat info{};
  const std::string path = pointer_path(root, key);
  LH_TRY(const FileDescriptor file, open_believed(path, 0, trust, info));
  LH_TRY(const std::string text, read_file(by_descriptor(file), pointer_bytes_max));
  const auto pointer = parse_json(text, path);
  if (!pointer.ok()) return make_error(ErrorCode::not_found, pointer.error().message());
  const std::string named = pointer->get_string("artifact");
  LH_TRY(const FileDescriptor folder, open_believed(named, O_DIRECTORY, trust, info));
  const std::int64_t owner = info.st_uid;
  LH_TRY(const FileDescriptor listed, open_believed(join_path(named, "manifest.json"), 0, trust, info));
  const bool own = owner == trust.self && info.st_uid == trust.self;
  Manifest manifest;
  auto artifact = artifact_of(named, key, manifest);
  if (!artifact.ok()) return make_error(ErrorCode::not_found, artifact.error().message());
  artifact->uid = owner;
  artifact->verified = own;
  if (!own) LH_CHECK(verify_once(root, key, manifest, *artifact, trust));
  return artifact;
}

Status register_artifact(const std::string& root, const std::string& key, const ArtifactSeen& artifact,
                         const ArtifactTrust& trust) {
  ArtifactTrust look = trust;
  look.verify = false;
  if (root.empty() || find_artifact(root, key, look).ok()) return {};
  LH_CHECK(make_directories(root));
  Value pointer = Value::make_table();
  pointer.set("file", "longhaul artifact");
  pointer.set("key", key);
  pointer.set("artifact", artifact.folder);
  pointer.set("digest", artifact.digest);
  return write_file_atomic(pointer_path(root, key), to_json_pretty(pointer));
}

}  // namespace longhaul
