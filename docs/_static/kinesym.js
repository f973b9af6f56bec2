// What scrolls can be scrolled by keys; both drawers have names.
addEventListener("DOMContentLoaded", () => {
  const reach = () =>
    document.querySelectorAll("pre, .table-wrapper, .math-block").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  reach();
  addEventListener("resize", reach);
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
});
