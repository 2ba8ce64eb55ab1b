#pragma once

#include <filesystem>
#include <optional>

// Code is loaded from files that no other user can put there.
namespace tutti::group {

/// The file that holds this code, a shared library or a program, as the kernel knows it: the name
/// that it was started by may be relative to a folder that the process has left. Empty: unknown.
[[nodiscard]] const std::filesystem::path& own_file();

/// The file without links, if it and its folders belong to this user, root or the owner of our own
/// file, and nobody else can write them. The folders above our own file are not looked at: who can
/// change them can change our code.
[[nodiscard]] std::optional<std::filesystem::path> trusted_file(const std::filesystem::path& file);

/// The same of a folder and those above it.
[[nodiscard]] std::optional<std::filesystem::path> trusted_folder(
    const std::filesystem::path& folder);

}  // namespace tutti::group
