/* A JupyterLab extension that reloads the open start page when a notebook has been saved.
 *
 * The server writes the page again before it confirms that a notebook is saved (`after_saving` in
 * start_page.py), but JupyterLab shows an open file as it was when it was opened. This file needs no build
 * step: it is the container that JupyterLab expects of a prebuilt extension.
 */
(() => {
  const PAGE = "start.md";

  const plugin = {
    id: "build-the-transformer-start-page:plugin",
    autoStart: true,
    activate: (app) => {
      app.serviceManager.contents.fileChanged.connect((_, change) => {
        if (change.type !== "save" || !String(change.newValue?.path).endsWith(".ipynb")) {
          return;
        }
        for (const widget of app.shell.widgets("main")) {
          const context = widget.context;
          const open = context?.path === PAGE || context?.path?.endsWith(`/${PAGE}`);
          // A student who edits the page keeps their changes.
          if (open && context.isReady && !context.model.dirty) {
            context.revert();
          }
        }
      });
    },
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["build-the-transformer-start-page"] = {
    init: () => {},
    get: async () => () => ({ __esModule: true, default: plugin }),
  };
})();
