"""The statistics of the company's web site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import fsum
from typing import Any

from gym_llm.envs.workplace_assistant.office_tool import Query, office_tool
from gym_llm.envs.workplace_assistant.tables import Office, Record

_VALUES = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)


class AnalyticsTools:
    """`analytics_…`."""

    @office_tool("visitor_id")
    def analytics_get_visitor_information_by_id(
        self, state: Office, visitor_id: Query = None
    ) -> list[dict[str, Any]] | str:
        """List a visitor's visits.

        Args:
            visitor_id: The visitor's id.
        """
        if not visitor_id:
            return "Visitor ID not provided."
        state.begin_search()
        visits = [visit for visit in state.data.tables["visits"] if visit["visitor_id"] == visitor_id]
        return state.give_out(visits) or "Visitor not found."

    @office_tool("time_min", "time_max", "value_to_plot", "plot_type")
    def analytics_create_plot(
        self,
        state: Office,
        time_min: Query = None,
        time_max: Query = None,
        value_to_plot: Query = None,
        plot_type: Query = None,
    ) -> str:
        """Plot a value over time; the plot's file comes back.

        Args:
            time_min: The first day, YYYY-MM-DD.
            time_max: The last day, YYYY-MM-DD.
            value_to_plot: One of total_visits, session_duration_seconds, user_engaged, visits_direct, visits_referral,
                visits_search_engine, visits_social_media.
            plot_type: One of bar, line, scatter, histogram.
        """
        if not time_min:
            return "Start date not provided."
        if not time_max:
            return "End date not provided."
        if value_to_plot not in _VALUES:
            return "Value to plot must be one of " + ", ".join(f"'{value}'" for value in _VALUES)
        if plot_type not in ("bar", "line", "scatter", "histogram"):
            return "Plot type must be one of 'bar', 'line', 'scatter', or 'histogram'"
        plot = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
        state.plots.append(plot)
        return plot

    @office_tool()
    def analytics_total_visits_count(
        self, state: Office, time_min: Query = None, time_max: Query = None
    ) -> dict[str, int]:
        """Count the visits of each day.

        Args:
            time_min: The first day, YYYY-MM-DD.
            time_max: The last day, YYYY-MM-DD.
        """
        return {day: len(visits) for day, visits in _days(state, time_min, time_max)}

    @office_tool()
    def analytics_engaged_users_count(
        self, state: Office, time_min: Query = None, time_max: Query = None
    ) -> dict[str, int]:
        """Count the visits of each day in which the visitor did something.

        Args:
            time_min: The first day, YYYY-MM-DD.
            time_max: The last day, YYYY-MM-DD.
        """
        days = _days(state, time_min, time_max)
        return {day: sum(visit["user_engaged"] for visit in visits) for day, visits in days}

    @office_tool()
    def analytics_traffic_source_count(
        self, state: Office, time_min: Query = None, time_max: Query = None, traffic_source: Query = None
    ) -> dict[str, int]:
        """Count the visits of each day that came from one source.

        Args:
            time_min: The first day, YYYY-MM-DD.
            time_max: The last day, YYYY-MM-DD.
            traffic_source: One of direct, referral, search engine, social media; without it all visits are counted.
        """
        return {
            day: sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in visits)
            for day, visits in _days(state, time_min, time_max)
        }

    @office_tool()
    def analytics_get_average_session_duration(
        self, state: Office, time_min: Query = None, time_max: Query = None
    ) -> dict[str, float]:
        """Average the seconds that the visits of each day took.

        Args:
            time_min: The first day, YYYY-MM-DD.
            time_max: The last day, YYYY-MM-DD.
        """
        days = _days(state, time_min, time_max)
        return {
            day: fsum(float(visit["session_duration_seconds"]) for visit in visits) / len(visits)
            for day, visits in days
        }


def _days(state: Office, first: str | None, last: str | None) -> Iterable[tuple[str, list[Record]]]:
    state.begin_search()
    days: defaultdict[str, list[Record]] = defaultdict(list)
    for visit in state.data.tables["visits"]:
        days[visit["date_of_visit"]].append(visit)
    return [(day, days[day]) for day in sorted(days) if (not first or day >= first) and (not last or day <= last)]
