// An array with a shape, values and gradients, in the memory of one device. Layers exchange blobs
// and keep their learnable parameters in blobs.
#ifndef MILLRACE_BLOB_H_
#define MILLRACE_BLOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/export.h"
#include "millrace/memory_space.h"

namespace millrace::caffe {
class BlobProto;
class BlobShape;
}  // namespace millrace::caffe

namespace millrace {

using Shape = std::vector<int64_t>;

// Memory order of a 4-axis (N, C, H, W) activation. Blobs of other ranks are always kPlain.
enum class Layout : uint8_t {
  kPlain,      // row-major in the order of the axes: NCHW
  kNhwc,       // channels innermost
  kBlocked8,   // nChw8c: blocks of 8 channels innermost; C is a multiple of 8
  kBlocked16,  // nChw16c
};

MILLRACE_API std::string ShapeText(const Shape& shape);  // "64 1 28 28 (50176)", as in Caffe's logs
MILLRACE_API int64_t ShapeCount(const Shape& shape);     // 1 for the empty shape (a scalar)

// The memory belongs to the blob (allocated on first use), to several blobs together (Share*), or
// to another object that outlives the blob (Bind*). Not thread-safe. With Hogwild, other threads
// may write bound weights at any time.
//
// Memory of a device that is not the host: data() and diff() are addresses for the device's work
// only. The host reads and writes such a blob with the functions that copy. They are not ordered
// with the work of queues: the caller waits for queues that use the blob (Queue::Synchronize).
class MILLRACE_API Blob {
 public:
  // An array of one value, in memory that outlives the blob.
  explicit Blob(MemorySpace& memory = HostMemory()) : memory_(&memory) {}
  explicit Blob(const Shape& shape, MemorySpace& memory = HostMemory()) : memory_(&memory) {
    Reshape(shape);
  }

  // The memory that data() and diff() lie in.
  MemorySpace& memory() const { return *memory_; }

  // Keeps owned memory if it is large enough; its contents are then undefined. Otherwise frees it,
  // so no enqueued work may use the blob.
  void Reshape(const Shape& shape, Layout layout = Layout::kPlain);
  void ReshapeLike(const Blob& other) { Reshape(other.shape_, other.layout_); }

  const Shape& shape() const { return shape_; }
  Layout layout() const { return layout_; }
  int num_axes() const { return static_cast<int>(shape_.size()); }
  int64_t count() const { return count_; }
  // The product of axes [begin, end).
  int64_t count(int begin, int end) const;
  int64_t count(int begin) const { return count(begin, num_axes()); }
  // `axis` may be negative, counted from the end. CanonicalAxis throws Error naming `what` if the
  // blob has no such axis.
  int CanonicalAxis(int axis, const char* what) const;
  int64_t dim(int axis) const { return shape_[axis < 0 ? axis + num_axes() : axis]; }

  // Values and gradients: count() floats each, in layout() order, initially zero.
  float* data() const;
  float* diff() const;
  bool has_diff() const { return diff_ != nullptr; }

  // Copies between the blob and count() floats of the host, in layout() order.
  void CopyDataToHost(float* host) const;
  void CopyDataFromHost(const float* host);
  void CopyDiffToHost(float* host) const;
  void CopyDiffFromHost(const float* host);
  // The values in host memory: data() if the host can access it, else `*copy`, which receives them.
  const float* DataOnHost(std::vector<float>* copy) const;

  // Uses the memory of `other`, which is in the same memory space. If `other` owns it, both blobs
  // do afterwards.
  void ShareData(const Blob& other);
  // Uses memory of another owner, in the blob's memory space, which must outlive the blob.
  void BindData(float* data);
  void BindDiff(float* diff);

  // Conversion to and from the file format, values in plain order, by way of the host. FromProto
  // throws Error, with a text that begins with `what`, if the shape or the number of values does
  // not fit this blob. Legacy 4-D shapes are compared without leading dimensions of 1.
  void ToProto(caffe::BlobProto* proto, bool with_diff) const;
  void FromProto(const caffe::BlobProto& proto, const std::string& what);

 private:
  Shape shape_;
  int64_t count_ = 1;
  Layout layout_ = Layout::kPlain;
  MemorySpace* memory_;
  mutable std::shared_ptr<Buffer> data_owner_, diff_owner_;
  mutable float* data_ = nullptr;
  mutable float* diff_ = nullptr;
};

// The shape of a stored blob, in any of the forms that the file format allows.
MILLRACE_API Shape ShapeOf(const caffe::BlobProto& proto);
MILLRACE_API Shape ShapeOf(const caffe::BlobShape& proto);

}  // namespace millrace

#endif  // MILLRACE_BLOB_H_
