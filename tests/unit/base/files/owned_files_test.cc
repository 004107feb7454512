#include "base/files/owned_files.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files/owned_folder.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "tests/support/plain_file.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

constexpr uid_t stranger = 40001;

mode_t mode_of(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

void plant_link(const std::string& to, const std::string& at) {
  REQUIRE(::symlink(to.c_str(), at.c_str()) == 0);
}
void plant_fifo(const std::string& path) {
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
}

bool refused(const Error& error, const std::string& path, const std::string& why) {
  CAPTURE(error.message());
  return error.code == ErrorCode::invalid_input && error.what.find(path) != std::string::npos &&
         error.what.find(why) != std::string::npos && error.what.find("mode 0") != std::string::npos &&
         error.what.find("uid ") != std::string::npos && !error.hint.empty();
}

// Somebody's files in a folder that everybody may write into; what must not be changed is `precious`.
struct SharedFolder {
  testing::Scratch scratch;
  std::string precious = scratch.file("precious");
  SharedFolder() {
    REQUIRE(write_plain(precious, "keep this"));
    REQUIRE(::mkdir(file("").c_str(), 0777) == 0);
    REQUIRE(::chmod(file("").c_str(), 0777) == 0);
  }
  std::string file(const std::string& name) const { return scratch.file("shared/" + name); }
  bool untouched() const { return read_file(precious).value() == "keep this"; }
};

}  // namespace

TEST_CASE("trust: an owned file is a regular file of ours that others cannot have written") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("page");
  REQUIRE(write_plain(path, "ours"));
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(read_owned_file(path, Ownership{}, 100).value() == "ours");
  CHECK(refused(read_owned_file(path, private_to_us(), 100).error(), path, "others than its owner may read it"));
  CHECK(read_owned_file(path, private_to_us(), 100).error().hint == "chmod 600 '" + path + "'");
  Ownership of_another;
  of_another.owners = {::geteuid() + 1, ::geteuid() + 2};
  CHECK(refused(read_owned_file(path, of_another, 100).error(), path, format("not of uid {}", ::geteuid() + 1)));
  of_another.owners.push_back(::geteuid());
  CHECK(read_owned_file(path, of_another, 100).ok());

  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK(refused(read_owned_file(path, Ownership{}, 100).error(), path, "may have written it"));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(::link(path.c_str(), scratch.file("second").c_str()) == 0);
  CHECK(refused(read_owned_file(path, Ownership{}, 100).error(), path, "2 names"));

  plant_link(path, scratch.file("link"));
  CHECK(refused(read_owned_file(scratch.file("link"), Ownership{}, 100).error(), scratch.file("link"), "a link of"));
  plant_fifo(scratch.file("fifo"));
  CHECK(refused(read_owned_file(scratch.file("fifo"), Ownership{}, 100).error(), scratch.file("fifo"), "a FIFO of"));
  CHECK(refused(read_owned_file(scratch.path(), Ownership{}, 100).error(), scratch.path(), "a folder of"));
  CHECK(read_owned_file(scratch.file("none"), Ownership{}, 100).error().code == ErrorCode::not_found);
  CHECK(read_owned_file(scratch.file("second"), Ownership{}, 3).error().code == ErrorCode::invalid_input);
}

TEST_CASE("trust: a file that is made or taken as it is follows no link and has the mode that was meant") {
  const SharedFolder shared;
  CHECK(open_or_create_owned_file(shared.file("page"), Ownership{}, 0600).ok());
  CHECK(mode_of(shared.file("page")) == 0600);
  CHECK(open_or_create_owned_file(shared.file("page"), Ownership{}, 0600).ok());
  plant_link(shared.precious, shared.file("beat-0"));
  plant_link(shared.file("nowhere"), shared.file("beat-1"));
  for (const char* name : {"beat-0", "beat-1"})
    CHECK(refused(open_or_create_owned_file(shared.file(name), Ownership{}, 0600).error(), name, "a link of"));
  CHECK_FALSE(file_exists(shared.file("nowhere")));
  CHECK(create_new_file(shared.file("beat-1")).error().code == ErrorCode::conflict);
  CHECK(create_new_file(shared.file("page")).error().code == ErrorCode::conflict);
  CHECK(shared.untouched());
}

TEST_CASE("trust: another user's file is refused whoever may write it" * doctest::skip(::geteuid() != 0)) {
  const testing::Scratch scratch;
  const std::string path = scratch.file("theirs");
  REQUIRE(write_plain(path, "forged"));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(::chown(path.c_str(), stranger, stranger) == 0);
  CHECK(refused(read_owned_file(path, private_to_us(), 100).error(), path, "uid 40001"));
  CHECK(refused(read_secret_file(path, "the token").error(), path, "uid 40001"));
  const std::string folder = scratch.file("folder");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(::chown(folder.c_str(), stranger, stranger) == 0);
  CHECK(refused(make_private_folder(folder).error(), folder, "uid 40001"));
  CHECK(refused(check_private_folder(folder).error(), folder, "uid 40001"));
}

TEST_CASE("trust: a secret is read from a file of ours that nobody else may read") {
  const testing::Scratch scratch;
  REQUIRE(write_plain(scratch.file("token"), "s3cret"));
  REQUIRE(::chmod(scratch.file("token").c_str(), 0640) == 0);
  const Error open = read_secret_file(scratch.file("token"), "the token").error();
  CHECK(refused(open, "the token: " + scratch.file("token"), "mode 0640"));
  CHECK(open.hint == "chmod 600 '" + scratch.file("token") + "'");
  REQUIRE(::chmod(scratch.file("token").c_str(), 0600) == 0);
  CHECK(read_secret_file(scratch.file("token"), "the token").value() == "s3cret");
  plant_link(scratch.file("token"), scratch.file("link"));  // where people keep their secrets is their affair
  CHECK(read_secret_file(scratch.file("link"), "the token").value() == "s3cret");
  plant_fifo(scratch.file("fifo"));
  CHECK(refused(read_secret_file(scratch.file("fifo"), "the token").error(), "fifo", "a FIFO"));
  REQUIRE(write_file_atomic(scratch.file("long"), std::string(5000, 'x'), 0600).ok());
  CHECK_FALSE(read_secret_file(scratch.file("long"), "the token").ok());
}

TEST_CASE("trust: a FIFO, a device or a socket in place of a file is refused by name at once") {
  const testing::Scratch scratch;
  const std::string fifo = scratch.file("0.json"), endless = scratch.file("config.json");
  plant_fifo(fifo);
  plant_link("/dev/zero", endless);
  CHECK(refused(read_file(fifo).error(), fifo, "a FIFO"));
  CHECK(refused(read_file(endless).error(), endless, "a device"));
  CHECK(refused(MappedFile::open(fifo).error(), fifo, "a FIFO"));
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, scratch.file("s").c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK_FALSE(read_file(scratch.file("s")).ok());
  CHECK(read_file("/dev/null").value().empty());
}

TEST_CASE("what a shell hands over as a pipe is read to its end") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::usleep(20'000);  // the reader finds the pipe empty first
    ::_exit(::write(write_end.get(), "[workflow]\n", 11) == 11 ? 0 : 1);
  }
  write_end.reset();
  CHECK(read_file("/dev/fd/" + std::to_string(read_end.get())).value() == "[workflow]\n");
  CHECK(poll_exit(writer).ok());
}

TEST_CASE("trust: names of files that are renamed when they are whole cannot be known before") {
  const SharedFolder shared;
  const std::string path = shared.file("lead-address");
  for (int i = 0; i < 300; ++i) plant_link(shared.precious, format("{}.tmp.{}.{}", path, ::getpid(), i));
  for (const std::string text : {"one", "two"}) {
    REQUIRE(write_file_atomic(path, text).ok());
    CHECK(read_file(path).value() == text);
  }
  REQUIRE(write_file_renamed(shared.file("state"), "x", 0600).ok());
  CHECK(mode_of(shared.file("state")) == 0600);
  REQUIRE(create_file_exclusive(shared.file("epoch"), "x").ok());
  CHECK(shared.untouched());
  const FileBeside a = create_beside(path).value(), b = create_beside(path).value();
  CHECK(a.path != b.path);
  CHECK(starts_with(a.path, path + ".tmp."));
  CHECK(a.path.size() == path.size() + 5 + 16);
}

TEST_CASE("trust: what is appended to is no link, and no second name of another file where others may write") {
  const SharedFolder shared;
  plant_link(shared.precious, shared.file("controller.log"));
  CHECK(refused(append_file_synced(shared.file("controller.log"), "x").error(), "controller.log", "a link of"));
  REQUIRE(::link(shared.precious.c_str(), shared.file("facts").c_str()) == 0);
  CHECK(refused(append_file_synced(shared.file("facts"), "x").error(), "facts", "2 names"));
  plant_fifo(shared.file("events"));
  CHECK(refused(append_file_synced(shared.file("events"), "x").error(), "events", "a FIFO"));
  CHECK(refused(touch_file(shared.file("events")).error(), "events", "a FIFO"));

  {
    Logger log("agent", "", LogLevel::info, shared.file("controller.log"));
    log.info("event=beat");
  }
  SpawnSpec spec;
  spec.argv = {"echo", "into somebody's file"};
  for (const char* name : {"controller.log", "facts", "events"}) {
    spec.stdout_path = shared.file(name);
    const auto started = spawn(spec);
    REQUIRE_FALSE(started.ok());
    CHECK(started.error().message().find(name) != std::string::npos);
    CHECK(started.error().message().find("uid ") != std::string::npos);
  }
  CHECK(shared.untouched());

  // A copy of hard links, as backups make them, is no reason where nobody else may write.
  REQUIRE(::chmod(shared.file("").c_str(), 0755) == 0);
  CHECK(append_file_synced(shared.file("facts"), "!").ok());
  CHECK(read_file(shared.precious).value() == "keep this!");
}

TEST_CASE("trust: a private folder is our own, closed, and nobody can put another in its place") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("node/");
  REQUIRE(make_private_folder(path).ok());
  CHECK(mode_of(scratch.file("node")) == 0700);
  CHECK(check_private_folder(path).ok());
  CHECK(make_private_folder(path).ok());

  REQUIRE(::chmod(path.c_str(), 0755) == 0);  // as an earlier release made it
  CHECK(refused(check_private_folder(path).error(), scratch.file("node"), "may read it"));
  CHECK(make_private_folder(path).ok());
  CHECK(mode_of(scratch.file("node")) == 0700);
  REQUIRE(::chmod(path.c_str(), 0770) == 0);
  CHECK(refused(make_private_folder(path).error(), scratch.file("node"), "may have written it"));

  REQUIRE(::mkdir(scratch.file("mine").c_str(), 0700) == 0);
  plant_link(scratch.file("mine"), scratch.file("link"));
  CHECK(refused(make_private_folder(scratch.file("link")).error(), scratch.file("link"), "a link of"));
  REQUIRE(write_plain(scratch.file("file"), ""));
  CHECK(refused(make_private_folder(scratch.file("file")).error(), scratch.file("file"), "a file of"));

  REQUIRE(::chmod(scratch.path().c_str(), 0777) == 0);
  CHECK(refused(make_private_folder(scratch.file("x")).error(), scratch.path(), "everybody may rename"));
  REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);  // as /tmp and /dev/shm are
  CHECK(make_private_folder(scratch.file("x")).ok());
  CHECK(check_private_folder(scratch.file("none")).error().code == ErrorCode::not_found);
}

TEST_CASE("trust: names of private folders cannot be known before") {
  const testing::Scratch scratch;
  const std::string a = make_unique_private_folder(scratch.path(), "longhaul-").value();
  const std::string b = make_unique_private_folder(scratch.path() + "/", "longhaul-").value();
  CHECK(a != b);
  CHECK(a.size() == scratch.file("longhaul-").size() + 32);
  CHECK(parent_path(b) == scratch.path());
  CHECK(mode_of(a) == 0700);
  CHECK(make_unique_private_folder(scratch.file("none"), "x").error().code == ErrorCode::not_found);
}

TEST_CASE("trust: a path below a folder leads out of it by no part") {
  const testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("run/stages")).ok());
  REQUIRE(make_directories(scratch.file("outside")).ok());
  REQUIRE(write_plain(scratch.file("run/stages/task.toml"), "ours"));
  REQUIRE(write_plain(scratch.file("outside/secret"), "s3cret"));
  REQUIRE(::chmod(scratch.file("run/stages/task.toml").c_str(), 0644) == 0);
  const std::string run = scratch.file("run");
  const auto read_below = [&](const std::string& relative) -> Result<std::string> {
    LH_TRY(const FileDescriptor fd, open_file_below(run, relative, Ownership{}));
    return read_to_end(fd.get(), relative, 100);
  };
  CHECK(read_below("stages/task.toml").value() == "ours");
  plant_link(scratch.file("outside/secret"), scratch.file("run/notes.toml"));
  plant_link(scratch.file("outside"), scratch.file("run/folder"));
  CHECK(refused(read_below("notes.toml").error(), run + "/notes.toml", "a link of"));
  CHECK(refused(read_below("folder/secret").error(), run + "/folder", "a link of"));
  for (const char* out : {"../outside/secret", "stages/../../outside/secret", "", "/etc/hostname", "stages//task.toml"})
    CHECK(read_below(out).error().code == ErrorCode::invalid_input);
  CHECK(read_below("stages").error().code == ErrorCode::invalid_input);
  CHECK(read_below("stages/none").error().code == ErrorCode::not_found);
}

}  // namespace longhaul
