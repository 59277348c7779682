"""Arguments that several commands share: of scenarios, of clients and their loads, of reports."""
