// Tokens into a tree. Grammar and precedence are Jinja's (https://jinja.palletsprojects.com/en/stable/templates/).
//
//   Block program = parse_template("{% for m in messages %}{{ m.role }}{% endfor %}");
//
// Throws Fault with its line. Statements that chat templates have no use for (extends, block, include, import, do,
// autoescape, trans) are named as not supported.
#pragma once

#include <string_view>

#include "llm/chat/jinja/ast.h"

namespace musacoder::llm::jinja {

Block parse_template(std::string_view source);

}  // namespace musacoder::llm::jinja
