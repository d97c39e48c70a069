#include "bench/data_bench/bounds.h"

#include <lmdb.h>

#include <cstdint>
#include <cstdio>
// jpeglib.h needs cstdio but does not include it.
#include <jpeglib.h>

#include "base/error.h"
#include "bench/measure.h"

namespace millrace::bench {
namespace {

void Check(int result) {
  if (result != 0) throw Error("LMDB: ", mdb_strerror(result));
}

uint8_t TouchLines(const MDB_val& value) {
  const auto* const bytes = static_cast<const uint8_t*>(value.mv_data);
  uint8_t sum = 0;
  for (size_t at = 0; at < value.mv_size; at += 64) sum = static_cast<uint8_t>(sum + bytes[at]);
  return sum;
}

void Decode(const std::string& file, std::vector<uint8_t>* rows) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_EXT_BGR;
  jpeg_start_decompress(&info);
  const size_t stride = size_t{info.output_width} * 3;
  rows->resize(stride * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = rows->data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

}  // namespace

double WalkRate(const std::string& path, double seconds) {
  MDB_env* environment;
  MDB_txn* transaction;
  MDB_dbi handle;
  MDB_cursor* cursor;
  Check(mdb_env_create(&environment));
  Check(mdb_env_set_mapsize(environment, size_t{1} << 40));
  Check(mdb_env_open(environment, path.c_str(), MDB_RDONLY | MDB_NOTLS | MDB_NOLOCK, 0));
  Check(mdb_txn_begin(environment, nullptr, MDB_RDONLY, &transaction));
  Check(mdb_dbi_open(transaction, nullptr, 0, &handle));
  Check(mdb_cursor_open(transaction, handle, &cursor));
  volatile uint8_t sink = 0;
  uint64_t records = 0;
  const double begin = Seconds();
  double taken = 0;
  while ((taken = Seconds() - begin) < seconds) {
    for (int i = 0; i < 256; ++i) {
      MDB_val key, value;
      if (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_NOTFOUND) {
        Check(mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
      }
      sink = TouchLines(value);
      ++records;
    }
  }
  (void)sink;
  mdb_cursor_close(cursor);
  mdb_txn_abort(transaction);
  mdb_env_close(environment);
  return static_cast<double>(records) / taken;
}

double DecodeRate(const std::vector<std::string>& jpegs, double seconds) {
  std::vector<uint8_t> rows;
  uint64_t images = 0;
  const double begin = Seconds();
  double taken = 0;
  while ((taken = Seconds() - begin) < seconds) Decode(jpegs[images++ % jpegs.size()], &rows);
  return static_cast<double>(images) / taken;
}

}  // namespace millrace::bench
