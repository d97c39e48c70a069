#include "topology/machine.h"

#include "base/files/file.h"
#include "segment/auth/key_file.h"
#include "segment/replica_device.h"
#include "transport/network_device.h"

namespace millrace::inline topology {

std::vector<NetworkInterface> ListInterfaces() {
  std::vector<NetworkInterface> interfaces;
  for (const NetworkDevice& device : ListNetworkDevices()) {
    interfaces.push_back(
        {device.name, device.address ? device.address->Text() : "", static_cast<int>(device.mtu)});
  }
  return interfaces;
}

Machine Machine::This() {
  return {ListInterfaces,
          [](const std::string& path, const std::string& named_in) {
            std::string found = ResolveBeside(path, named_in);
            ReadKeyFile(found);
            return found;
          },
          [](DeviceType type, int ordinal) { DeviceReplica(type, ordinal); }};
}

}  // namespace millrace::inline topology
