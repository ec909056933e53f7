"""What screens are made of: tables, texts, plots, panes, dialogs, and the cells they draw."""
