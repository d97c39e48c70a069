#include "model/arrays/zip.h"

#include <zlib.h>

#include <set>

#include "base/error.h"
#include "model/arrays/byte_reader.h"

namespace millrace::inline model {
namespace {

// Signatures and sizes of APPNOTE.TXT, the specification of the format.
constexpr uint32_t kLocal = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kEndBytes = 22, kLocator64Bytes = 20;
constexpr uint16_t kZip64Field = 1;
constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
constexpr uint32_t kMax32 = 0xffffffff;

struct Directory {
  uint64_t members, offset;
};

// Finds the end record, behind which there may be a comment.
Directory FindDirectory(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kEndBytes) throw Error(path, ": truncated ZIP archive");
  const size_t lowest = bytes.size() - std::min<size_t>(bytes.size(), kEndBytes + 0xffff);
  for (size_t at = bytes.size() - kEndBytes;; --at) {
    ByteReader end(bytes, path, at);
    if (end.Number<uint32_t>() == kEnd) {
      end.Take(6);
      Directory directory{end.Number<uint16_t>(), 0};
      end.Take(4);
      directory.offset = end.Number<uint32_t>();
      if (directory.members != 0xffff && directory.offset != kMax32) return directory;
      if (at < kLocator64Bytes) end.Fail("no ZIP64 record");
      ByteReader locator(bytes, path, at - kLocator64Bytes);
      if (locator.Number<uint32_t>() != kLocator64) locator.Fail("no ZIP64 locator");
      locator.Take(4);
      const auto offset = locator.Number<uint64_t>();
      if (offset > bytes.size()) locator.Fail("a ZIP64 record beyond the end");
      ByteReader end64(bytes, path, offset);
      if (end64.Number<uint32_t>() != kEnd64) end64.Fail("no ZIP64 record");
      end64.Take(28);
      directory.members = end64.Number<uint64_t>();
      end64.Take(8);
      directory.offset = end64.Number<uint64_t>();
      return directory;
    }
    if (at == lowest) throw Error(path, ": truncated ZIP archive: it has no directory");
  }
}

// Sets the sizes that do not fit 32 bits from the extra field of ZIP64.
void ApplyZip64(std::string_view extra, const std::string& path, uint64_t* bytes,
                uint64_t* stored_bytes, uint64_t* offset) {
  ByteReader fields(extra, path);
  while (fields.left() >= 4) {
    const auto id = fields.Number<uint16_t>();
    ByteReader field(fields.Take(fields.Number<uint16_t>()), path);
    if (id != kZip64Field) continue;
    for (uint64_t* const value : {bytes, stored_bytes, offset}) {
      if (*value == kMax32) *value = field.Number<uint64_t>();
    }
  }
}

std::string Inflate(std::string_view stored, uint64_t bytes, const std::string& where) {
  // Deflate makes at most 1,032 bytes of one.
  if (bytes / 1032 > stored.size() + 1) throw Error(where, ": damaged: a size of ", bytes);
  std::string contents(bytes, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(where, ": zlib does not start");
  // zlib counts 32 bits at a time.
  constexpr uint64_t kPart = 1 << 30;
  uint64_t in = 0, out = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const auto in_part = static_cast<uInt>(std::min<uint64_t>(kPart, stored.size() - in));
    const auto out_part = static_cast<uInt>(std::min<uint64_t>(kPart, bytes - out));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data() + in));
    stream.avail_in = in_part;
    stream.next_out = reinterpret_cast<Bytef*>(contents.data() + out);
    stream.avail_out = out_part;
    status = inflate(&stream, Z_NO_FLUSH);
    in += in_part - stream.avail_in;
    out += out_part - stream.avail_out;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out != bytes) throw Error(where, ": damaged compressed data");
  return contents;
}

uint32_t ChecksumOf(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename T>
void Append(std::string* to, T value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

ZipReader::ZipReader(std::string_view bytes, std::string path)
    : bytes_(bytes), path_(std::move(path)) {
  const Directory directory = FindDirectory(bytes, path_);
  if (directory.offset > bytes.size()) throw Error(path_, ": damaged: a directory beyond the end");
  ByteReader reader(bytes, path_, directory.offset);
  std::set<std::string> seen;
  for (uint64_t i = 0; i < directory.members; ++i) {
    if (reader.Number<uint32_t>() != kEntry) reader.Fail("no entry of the directory");
    reader.Take(4);
    Member member{};
    member.flags = reader.Number<uint16_t>();
    member.method = reader.Number<uint16_t>();
    reader.Take(4);  // time and date
    member.checksum = reader.Number<uint32_t>();
    member.stored_bytes = reader.Number<uint32_t>();
    member.bytes = reader.Number<uint32_t>();
    const auto name_bytes = reader.Number<uint16_t>();
    const auto extra_bytes = reader.Number<uint16_t>();
    const auto comment_bytes = reader.Number<uint16_t>();
    reader.Take(8);  // volume, attributes
    member.offset = reader.Number<uint32_t>();
    const std::string name(reader.Take(name_bytes));
    ApplyZip64(reader.Take(extra_bytes), path_, &member.bytes, &member.stored_bytes,
               &member.offset);
    reader.Take(comment_bytes);
    if (!seen.insert(name).second) throw Error(path_, ": '", name, "' is there twice");
    names_.push_back(name);
    members_.push_back(member);
  }
}

std::string ZipReader::Read(size_t index) const {
  const Member& member = members_.at(index);
  const std::string where = path_ + ": " + names_[index];
  if ((member.flags & kEncrypted) != 0) throw Error(where, ": encrypted");
  if (member.offset > bytes_.size()) throw Error(where, ": damaged: it begins beyond the end");
  ByteReader reader(bytes_, path_, member.offset);
  if (reader.Number<uint32_t>() != kLocal) reader.Fail("no member " + names_[index]);
  reader.Take(22);
  const auto name_bytes = reader.Number<uint16_t>();
  const auto extra_bytes = reader.Number<uint16_t>();
  reader.Take(name_bytes);
  reader.Take(extra_bytes);
  const std::string_view stored = reader.Take(member.stored_bytes);
  std::string contents;
  if (member.method == kDeflated) {
    contents = Inflate(stored, member.bytes, where);
  } else if (member.method == kStored && member.bytes == member.stored_bytes) {
    contents = stored;
  } else {
    throw Error(where, ": compression method ", member.method,
                ", expected 0 (stored) or 8 (deflate)");
  }
  if (ChecksumOf(contents) != member.checksum) throw Error(where, ": the checksum differs");
  return contents;
}

void ZipWriter::Add(const std::string& name, const std::string& contents) {
  if (bytes_.size() + name.size() + contents.size() > kMax32 - 1000 || members_ == 0xfffe ||
      name.size() > 0xffff) {
    throw Error(path_,
                ": more than 4 GiB, or than 65534 arrays, which a ZIP archive does not hold");
  }
  const auto offset = static_cast<uint32_t>(bytes_.size());
  // The fields that both headers have.
  std::string common;
  Append<uint16_t>(&common, 20);       // version
  Append<uint16_t>(&common, 1 << 11);  // names in UTF-8
  Append<uint16_t>(&common, kStored);
  Append<uint32_t>(&common, 0x00210000);  // 1 January 1980: equal arrays give equal files
  Append<uint32_t>(&common, ChecksumOf(contents));
  Append<uint32_t>(&common, static_cast<uint32_t>(contents.size()));
  Append<uint32_t>(&common, static_cast<uint32_t>(contents.size()));
  Append<uint16_t>(&common, static_cast<uint16_t>(name.size()));
  Append<uint16_t>(&common, 0);  // extra fields
  Append(&bytes_, kLocal);
  bytes_ += common + name + contents;
  Append(&directory_, kEntry);
  Append<uint16_t>(&directory_, 20);
  directory_ += common;
  directory_.append(10, '\0');  // comment, volume, attributes
  Append(&directory_, offset);
  directory_ += name;
  ++members_;
}

std::string ZipWriter::Finish() {
  const auto offset = static_cast<uint32_t>(bytes_.size());
  bytes_ += directory_;
  Append(&bytes_, kEnd);
  Append<uint32_t>(&bytes_, 0);
  Append(&bytes_, members_);
  Append(&bytes_, members_);
  Append(&bytes_, static_cast<uint32_t>(directory_.size()));
  Append(&bytes_, offset);
  Append<uint16_t>(&bytes_, 0);
  return std::move(bytes_);
}

}  // namespace millrace::inline model
