"""Values: dataclasses that cost little until they are used."""
