// Durations as settings have them: a number with its unit ("30min"), or as Slurm writes a time with hours in it.
#pragma once

#include <optional>
#include <string>

namespace longhaul {

// Seconds of "45s", "30min", "12h", and of Slurm's "HH:MM:SS", "D-HH", "D-HH:MM" and "D-HH:MM:SS" (sbatch(1), --time):
// minutes and seconds below 60; hours below 24 behind days. nullopt for all else; "MM" and "MM:SS", which Slurm takes
// as minutes and others as seconds or hours, are not guessed at.
std::optional<double> duration_setting(const std::string& text);

// What to write instead of `text`, or of a number without a unit; an example where nothing can be guessed.
std::string duration_remedy(const std::string& text);

}  // namespace longhaul
