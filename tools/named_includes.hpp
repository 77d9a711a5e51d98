// Of tools/own_declarations.cpp: each file of ours names (includes, directly or by way of others that it includes) the
// headers of ours that declare what it uses. A room is compiled as one, where a source can lean on what its neighbour
// includes; this says so without compiling each source and header alone, which took as long as all other checks.
// Not seen: which headers of others are named, and what templates use once they are instantiated.
#pragma once

#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace named_includes {

using File = const clang::FileEntry*;

// Which of our files includes which, as the preprocessor goes through them.
struct Names {
  std::map<File, std::set<File>> included;
  std::map<File, std::set<File>> reached;  // from each file, itself among them; found when asked for

  const std::set<File>& from(File file) {
    const auto known = reached.find(file);
    if (known != reached.end()) return known->second;
    std::set<File> seen{file};
    std::vector<File> open{file};
    while (!open.empty()) {
      const File next = open.back();
      open.pop_back();
      for (const File further : included[next]) {
        if (seen.insert(further).second) open.push_back(further);
      }
    }
    return reached[file] = std::move(seen);
  }
};

class Directives : public clang::PPCallbacks {
 public:
  Directives(const clang::SourceManager& sources, Names& names) : sources_(sources), names_(names) {}

  void InclusionDirective(clang::SourceLocation hash, const clang::Token& /*directive*/, llvm::StringRef /*name*/,
                          bool /*angled*/, clang::CharSourceRange /*range*/, const clang::FileEntry* file,
                          llvm::StringRef /*search*/, llvm::StringRef /*relative*/, const clang::Module* /*module*/,
                          clang::SrcMgr::CharacteristicKind kind) override {
    if (file == nullptr || clang::SrcMgr::isSystem(kind)) return;
    names_.included[sources_.getFileEntryForID(sources_.getFileID(hash))].insert(file);
  }

 private:
  const clang::SourceManager& sources_;
  Names& names_;
};

// Goes through our declarations and says where one is used whose header the file does not name.
class Uses : public clang::RecursiveASTVisitor<Uses> {
 public:
  Uses(clang::ASTContext& context, Names& names)
      : sources_(context.getSourceManager()),
        diagnostics_(context.getDiagnostics()),
        names_(names),
        message_(diagnostics_.getCustomDiagID(clang::DiagnosticsEngine::Error,
                                              "uses '%0' of %1, which it does not include")) {}

  bool VisitDeclRefExpr(clang::DeclRefExpr* use) { return declared(use->getLocation(), use->getDecl()); }
  bool VisitMemberExpr(clang::MemberExpr* use) { return declared(use->getMemberLoc(), use->getMemberDecl()); }
  bool VisitTagTypeLoc(clang::TagTypeLoc use) { return declared(use.getNameLoc(), use.getDecl()); }
  bool VisitTypedefTypeLoc(clang::TypedefTypeLoc use) { return declared(use.getNameLoc(), use.getTypedefNameDecl()); }
  bool VisitTemplateSpecializationTypeLoc(clang::TemplateSpecializationTypeLoc use) {
    return declared(use.getTemplateNameLoc(), use.getTypePtr()->getTemplateName().getAsTemplateDecl());
  }
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* use) { return defined(use->getLocation(), use->getType()); }
  bool VisitCallExpr(clang::CallExpr* use) { return !use->isPRValue() || defined(use->getExprLoc(), use->getType()); }
  bool VisitVarDecl(clang::VarDecl* variable) {
    return clang::isa<clang::ParmVarDecl>(variable) || variable->hasExternalStorage() ||
           defined(variable->getLocation(), variable->getType());
  }
  bool VisitFieldDecl(clang::FieldDecl* field) { return defined(field->getLocation(), field->getType()); }
  bool VisitCXXRecordDecl(clang::CXXRecordDecl* type) {
    if (!type->isThisDeclarationADefinition()) return true;
    for (const clang::CXXBaseSpecifier& base : type->bases()) defined(base.getBeginLoc(), base.getType());
    return true;
  }

 private:
  File file_of(clang::SourceLocation location) const {
    location = sources_.getExpansionLoc(location);
    if (location.isInvalid() || sources_.isInSystemHeader(location)) return nullptr;
    return sources_.getFileEntryForID(sources_.getFileID(location));
  }

  // Any of its declarations will do: a pointer to what is declared ahead asks for no header.
  bool declared(clang::SourceLocation use, const clang::Decl* declaration) {
    const File file = file_of(use);
    if (file == nullptr || declaration == nullptr) return true;
    const std::set<File>& named = names_.from(file);
    File home = nullptr;
    for (const clang::Decl* one : declaration->redecls()) {
      const File of_one = file_of(one->getLocation());
      if (of_one == nullptr || named.count(of_one) != 0) return true;
      home = of_one;
    }
    const auto* name = clang::dyn_cast<clang::NamedDecl>(declaration);
    return say(use, name == nullptr ? "?" : name->getNameAsString(), home);
  }

  // The class itself must be known, not only its name.
  bool defined(clang::SourceLocation use, clang::QualType type) {
    const File file = file_of(use);
    if (file == nullptr || type.isNull() || type->isDependentType()) return true;
    const clang::CXXRecordDecl* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
    if (record == nullptr || (record = record->getDefinition()) == nullptr) return true;
    if (const auto* from = record->getTemplateInstantiationPattern()) record = from;
    const File home = file_of(record->getLocation());
    if (home == nullptr || names_.from(file).count(home) != 0) return true;
    return say(use, record->getNameAsString(), home);
  }

  bool say(clang::SourceLocation use, const std::string& name, File home) {
    if (said_.emplace(file_of(use), home).second) diagnostics_.Report(use, message_) << name << home->getName();
    return true;
  }

  const clang::SourceManager& sources_;
  clang::DiagnosticsEngine& diagnostics_;
  Names& names_;
  unsigned message_;
  std::set<std::pair<File, File>> said_;
};

}  // namespace named_includes
