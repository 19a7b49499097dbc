# How the rules of an item look up which files of runs and data sets its table and its figure are made of.
from leaklab.planning import item_files
from leaklab.planning.state import state_of


def item_of(wildcards):
    key = f"{wildcards.paper}/{wildcards.item}"
    if (wildcards.scale, key) not in the_plan().runs:
        item = the_plan().items.get(key)
        reason = (
            "there is no such item"
            if item is None
            else state_of(the_plan(), item, wildcards.scale).reason
        )
        raise WorkflowError(
            f"leaklab: cannot make {key} at scale {wildcards.scale}: {reason}"
        )
    return the_plan().items[key]


def of_item(files):
    """Return a function from wildcards to the files that a function of plan, scale and item names."""

    def paths(wildcards):
        return files(the_plan(), wildcards.scale, item_of(wildcards))

    return paths


def item_yaml(wildcards):
    return str(item_file(item_of(wildcards)))


def item_spec(wildcards):
    item = item_of(wildcards)
    missing = item.scales[wildcards.scale].missing
    return canonical_json(
        {
            "paper": wildcards.paper,
            "item": wildcards.item,
            "scale": wildcards.scale,
            **({"missing": missing} if missing else {}),
        }
    )
