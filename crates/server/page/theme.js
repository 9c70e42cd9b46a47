// Runs before the first paint, so that a chosen theme does not flash the other one first. Not a
// module for that reason. Without a choice the system's theme holds.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  // Storage can be switched off; then the choice lasts as long as the page.
  const remembered = () => {
    try {
      return localStorage.getItem("tandem-theme");
    } catch {
      return null;
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("tandem-theme", theme);
    } catch {
      // The theme still changes.
    }
  };

  const chosen = remembered();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () =>
      button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      remember(root.dataset.theme);
      label();
    });
    system.addEventListener("change", label);
    label();
  });
})();
