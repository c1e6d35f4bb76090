"""The result contract: versioned records, atomic storage, reading back. Nothing here measures or judges."""
