"""The building blocks of screens: tables, texts, plots, panes, dialogs, and the cells they draw."""
