"""``leaklab list``: all plug-ins by room, the package's and guests', and where each is from."""

from typing import Annotated

import typer

from leaklab.guests.places import ROOMS, lodgers
from leaklab.records import plugins
from leaklab.records.errors import UserError


def list_plugins(
    room: Annotated[str | None, typer.Argument(help=f"one of {', '.join(ROOMS)}; none: all")] = None,
) -> None:
    """List plug-ins and where each is from: leaklab, mine/, a folder of your pyproject.toml, or a distribution."""
    if room is not None and room not in ROOMS:
        raise UserError(f"there is no kind of plug-ins '{room}': choose from {', '.join(ROOMS)}")
    guests = lodgers()
    for one in ROOMS if room is None else [room]:
        places = dict.fromkeys(plugins.available(one), "leaklab")
        places |= {name: lodger.place for name, lodger in guests[one].items()}
        typer.echo(one)
        for name, place in sorted(places.items()):
            typer.echo(f"  {name:<28} {place}")
