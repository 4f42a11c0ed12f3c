// Before anything is drawn: the theme that was chosen here, so that the page does not flash in the other one.
try {
  document.documentElement.dataset.theme = JSON.parse(localStorage.getItem("lockstep.settings") ?? "{}").theme || "auto";
} catch {
  document.documentElement.dataset.theme = "auto";
}
