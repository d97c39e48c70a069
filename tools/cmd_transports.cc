// millrace transports: lists the transports, what each needs and which options it takes.
#include <cstdio>

#include "millrace/transport_registry.h"
#include "tools/command.h"

namespace millrace {
namespace {

std::string List(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The fields of a node and a segment in a topology file from which endpoints get their addresses.
std::string FieldsOf(const TransportDescriptor& transport) {
  if (!transport.InTopologies()) return "cannot be named";
  std::vector<std::string> fields;
  for (const AddressKey& key : transport.addressing.keys) {
    fields.push_back("node." +
                     (AdapterFields::IsField(key.name) ? key.name : "option " + key.name));
  }
  if (transport.addressing.has_port) fields.push_back("segment.port");
  return List(fields);
}

int RunTransports(const std::vector<std::string>& arguments) {
  ExpectArguments(arguments, 0, "none");
  for (const TransportDescriptor* each : TransportRegistry::Get().Descriptors()) {
    const std::string reason = TransportRegistry::Get().WhyNot(each->name);
    std::printf("%s: %s\n", each->name.c_str(), each->description.c_str());
    if (!reason.empty()) std::printf("  in %s\n", reason.c_str());
    if (!each->privilege.empty()) std::printf("  privilege: %s\n", each->privilege.c_str());
    std::printf("  topology: %s\n", FieldsOf(*each).c_str());
    std::printf("  options: %s%s\n", List(each->options).c_str(),
                each->passes_options ? ", and those of the transport below it" : "");
  }
  return 0;
}

const RegisterCommand registered_transports({"transports",
                                             "",
                                             "lists the transports of this build and their options",
                                             {"plugins"},
                                             RunTransports});

}  // namespace
}  // namespace millrace
