"""Ground floor: typed specs, run ids, random streams, artefact files, provenance records."""
