// The description of the control service in the form of OpenAPI 3.0, from its routes and messages.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/struct.pb.h>

#include <string>

#include "control/api.h"
#include "millrace/version.h"

namespace millrace::inline control {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Struct;
using google::protobuf::Value;

// The member of this name, which is an object.
Struct* Member(Struct* object, const std::string& name) {
  return (*object->mutable_fields())[name].mutable_struct_value();
}
void Set(Struct* object, const std::string& name, const std::string& value) {
  (*object->mutable_fields())[name].set_string_value(value);
}
void SetTrue(Struct* object, const std::string& name) {
  (*object->mutable_fields())[name].set_bool_value(true);
}

std::string ReferenceTo(const std::string& message) { return "#/components/schemas/" + message; }

// The schema of one value of a field.
void DescribeValue(const FieldDescriptor& field, Struct* schema) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Set(schema, "$ref", ReferenceTo(field.message_type()->name()));
    case FieldDescriptor::CPPTYPE_STRING:
      return Set(schema, "type", "string");
    case FieldDescriptor::CPPTYPE_BOOL:
      return Set(schema, "type", "boolean");
    case FieldDescriptor::CPPTYPE_INT32:
      Set(schema, "format", "int32");
      return Set(schema, "type", "integer");
    default:
      return Set(schema, "type", "number");
  }
}

void DescribeMessage(const Descriptor& message, Struct* schema) {
  Set(schema, "type", "object");
  Struct* const properties = Member(schema, "properties");
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    Struct* const property = Member(properties, field.name());
    if (field.is_map()) {
      Set(property, "type", "object");
      DescribeValue(*field.message_type()->FindFieldByName("value"),
                    Member(property, "additionalProperties"));
    } else if (field.is_repeated()) {
      Set(property, "type", "array");
      DescribeValue(field, Member(property, "items"));
    } else {
      DescribeValue(field, property);
    }
  }
}

// Type of a body: a message, "*" for any JSON, or text of a media type.
void DescribeContent(const std::string& what, Struct* owner) {
  const bool is_text = what.find('/') != std::string::npos;
  Struct* const schema =
      Member(Member(Member(owner, "content"), is_text ? what : "application/json"), "schema");
  if (is_text) {
    Set(schema, "type", "string");
  } else if (what != "*") {
    Set(schema, "$ref", ReferenceTo(what));
  }
}

void DescribeRoute(const ControlApi::Route& route, Struct* paths) {
  const std::string path = route.path;
  const std::string verb = route.method == std::string("GET") ? "get" : "post";
  Struct* const operation = Member(Member(paths, path), verb);
  Set(operation, "summary", route.summary);
  if (const size_t begin = path.find('{'); begin != std::string::npos) {
    auto* const list = (*operation->mutable_fields())["parameters"].mutable_list_value();
    Struct* const parameter = list->add_values()->mutable_struct_value();
    Set(parameter, "name", path.substr(begin + 1, path.size() - begin - 2));
    Set(parameter, "in", "path");
    SetTrue(parameter, "required");
    Set(Member(parameter, "schema"), "type", "string");
  }
  if (*route.input != '\0') DescribeContent(route.input, Member(operation, "requestBody"));
  Struct* const responses = Member(operation, "responses");
  Struct* const success = Member(responses, "200");
  Set(success, "description", "Success.");
  DescribeContent(route.output, success);
  Struct* const problem = Member(responses, "default");
  Set(problem, "description", "A problem, in one line.");
  DescribeContent("Problem", problem);
  if (route.access == Access::kPublic) return;
  auto* const security = (*operation->mutable_fields())["security"].mutable_list_value();
  if (route.access == Access::kRead) security->add_values()->mutable_struct_value();
  for (const char* scheme : {"token", "signature"}) {
    (*security->add_values()->mutable_struct_value()->mutable_fields())[scheme]
        .mutable_list_value();
  }
}

void DescribeSecurity(Struct* schemes) {
  Struct* const token = Member(schemes, "token");
  Set(token, "type", "http");
  Set(token, "scheme", "bearer");
  Set(token, "description",
      "On a loopback address, or under TLS: what `millrace ctl token` prints.");
  Struct* const signature = Member(schemes, "signature");
  Set(signature, "type", "apiKey");
  Set(signature, "in", "header");
  Set(signature, "name", "millrace-signature");
  Set(signature, "description",
      "HMAC-SHA-256 of method, target, time, nonce and body under the cluster's key, with the "
      "headers millrace-time and millrace-nonce.");
}

}  // namespace

std::string OpenApiDocument() {
  Struct document;
  Set(&document, "openapi", "3.0.3");
  Struct* const info = Member(&document, "info");
  Set(info, "title", "Millrace control service");
  Set(info, "version", Version());
  Struct* const paths = Member(&document, "paths");
  for (const ControlApi::Route& route : ControlApi::Routes()) DescribeRoute(route, paths);
  Struct* const components = Member(&document, "components");
  DescribeSecurity(Member(components, "securitySchemes"));
  Struct* const schemas = Member(components, "schemas");
  const auto& file = *control_api::Status::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    DescribeMessage(*file.message_type(i), Member(schemas, file.message_type(i)->name()));
  }
  return JsonOf(document);
}

}  // namespace millrace::inline control
