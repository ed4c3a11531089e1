// The OpenAPI 3.1 document of the routes in docs/service.md, served at /openapi.json.
// A test compares its paths with the route table, so that neither is forgotten.
#pragma once

#include <string>

namespace musacoder::service {

// JSON text. With `tokens`, the bearer scheme is required.
std::string openapi_text(bool tokens);

}  // namespace musacoder::service
