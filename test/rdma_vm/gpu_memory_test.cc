// Memory that only the device can read: GPU memory, emulated by pages that this process may not
// access once they are registered.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "millrace/device.h"
#include "test/rdma_vm/verbs_cases.h"

namespace millrace::test {
namespace {

// GPU pages mapped twice: at an address that can be protected from the processor, and at one where
// a test writes them.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    const int fd = memfd_create("millrace_test", 0);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    for (void*& at : at_) {
      at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
  }
  ~Pages() {
    for (void* at : at_) munmap(at, bytes_);
  }
  std::span<const std::byte> gpu() const { return {static_cast<std::byte*>(at_[0]), bytes_}; }
  std::byte* alias() const { return static_cast<std::byte*>(at_[1]); }
  void Forbid() { ASSERT_EQ(mprotect(at_[0], bytes_, PROT_NONE), 0); }

 private:
  const size_t bytes_;
  void* at_[2] = {};
};

class PlainGpuMemory : public MemorySpace {
 public:
  std::string name() const override { return "fake device 0"; }
  bool on_host() const override { return false; }
  DmaBuf ExportDmaBuf(const void*, size_t, std::string* why) override {
    *why = "it is fake";
    return {};
  }
  void* Allocate(size_t bytes) override {
    if (exhausted) throw Error("fake device 0: cannot allocate ", bytes, " bytes");
    return HostMemory().Allocate(bytes);
  }
  void Free(void* pointer) override { HostMemory().Free(pointer); }
  void Fill(void* pointer, int byte, size_t bytes) override {
    HostMemory().Fill(pointer, byte, bytes);
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    HostMemory().CopyFromHost(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, size_t bytes) override {
    HostMemory().CopyToHost(to, from, bytes);
  }
  bool exhausted = false;
};

// Has memory and nothing else.
class FakeGpu : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
  int ordinal() const override { return 0; }
  const std::string& name() const override { return name_; }
  PlainGpuMemory& memory() override { return memory_; }
  MemorySpace& staging() override { return HostMemory(); }
  std::unique_ptr<Queue> MakeQueue(QueuePriority) override { throw Error(name_, ": no queues"); }
  std::unique_ptr<MemoryMapping> Map(std::span<const std::byte>) override { return nullptr; }

 private:
  PlainGpuMemory memory_;
  const std::string name_ = memory_.name();
};

// Owns the memory `owned`, which tests set.
class FakeDriver : public DeviceDriver {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
  const char* type_name() const override { return "cuda"; }
  std::vector<DeviceInfo> List() override { return {}; }
  Device& Open(int) override { return gpu; }
  int OwnerOf(const void* pointer) override {
    const auto* const at = static_cast<const std::byte*>(pointer);
    return at >= owned.data() && at < owned.data() + owned.size() ? 0 : -1;
  }
  std::span<const std::byte> owned;
  FakeGpu gpu;
};

FakeDriver& Fake() {
  static FakeDriver* const driver = [] {
    auto made = std::make_unique<FakeDriver>();
    FakeDriver* const raw = made.get();
    DeviceRegistry::Get().Register(std::move(made));
    return raw;
  }();
  return *driver;
}

class VerbsGpuMemory : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = WhyNoVerbs();
    if (!reason.empty()) GTEST_SKIP() << reason;
    VerbsOptions options;
    options.silence_ms = 1000 * Patience();
    group_ = ConnectVerbsGroup(2, options);
    Fake().owned = pages_.gpu();
    Fake().gpu.memory().exhausted = false;
  }
  void TearDown() override { Fake().owned = {}; }

  Pages pages_{1 << 16};  // outlive the group
  Group group_;
};

TEST_F(VerbsGpuMemory, IsReadByTheDeviceAloneHoweverShortThePayloadIs) {
  ASSERT_TRUE(group_[0]->RegisterMemory(pages_.gpu()));
  pages_.Forbid();
  for (size_t i = 0; i < pages_.gpu().size(); ++i) pages_.alias()[i] = static_cast<std::byte>(i);
  const Bytes header = Numbered(5, 40);
  for (const size_t bytes : {size_t{4}, size_t{8}, size_t{60}, size_t{400}, size_t{4000}}) {
    const size_t at = 3 * bytes;
    for (const NodeId to : {NodeId{1}, kAllNodes}) {
      const OutFrame frame = {to, header, pages_.gpu().subspan(at, bytes)};
      ASSERT_TRUE(SendOne(group_[0].get(), frame));
      ASSERT_TRUE(Flush(group_[0].get()));
      const std::vector<Received> received = Collect(group_[1].get(), 1);
      ASSERT_EQ(received.size(), 1u);
      Bytes expected = header;
      expected.insert(expected.end(), pages_.alias() + at, pages_.alias() + at + bytes);
      EXPECT_EQ(received[0].bytes, expected);
    }
  }
}

TEST_F(VerbsGpuMemory, IsNotSentFromWhereTheDeviceCannotReadIt) {
  pages_.Forbid();  // before registration, so that the kernel cannot pin the pages either
  EXPECT_FALSE(group_[0]->RegisterMemory(pages_.gpu()));
  const Bytes header = Numbered(5, 40), payload = Numbered(6, 400);
  const OutFrame frame = {NodeId{1}, header, payload};
  ASSERT_TRUE(SendOne(group_[0].get(), frame));  // the endpoint still works
  ASSERT_TRUE(Flush(group_[0].get()));
  EXPECT_EQ(Collect(group_[1].get(), 1).size(), 1u);
}

TEST_F(VerbsGpuMemory, WithoutAnyWayToTheDeviceIsOneLine) {
  pages_.Forbid();
  Fake().gpu.memory().exhausted = true;
  const std::string said = ErrorOf([&] { group_[0]->RegisterMemory(pages_.gpu()); });
  EXPECT_EQ(said,
            "transport verbs: rxe1 port 1: no way from the memory of fake device 0 to this "
            "device: dma-buf: it is fake; peer memory: the module nvidia_peermem is not loaded; "
            "staging: fake device 0: cannot allocate 8388608 bytes");
}

}  // namespace
}  // namespace millrace::test
