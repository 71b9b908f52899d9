"""The boards with the teams' tasks."""

from __future__ import annotations

import re
from typing import Any

from gym_llm.envs.workplace_assistant.office_tool import Query, Text, office_tool
from gym_llm.envs.workplace_assistant.tables import Office, contains

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_ADDRESS = re.compile(r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}\n?")
_LONGEST_ADDRESS = 320  # longer ones are none, and the pattern's time grows with their square


class ProjectTools:
    """`project_management_…`."""

    @office_tool("task_id", "field")
    def project_management_get_task_information_by_id(
        self, state: Office, task_id: Text = None, field: Text = None
    ) -> dict[str, Any] | str:
        """Read one field of a task.

        Args:
            task_id: The task's id, 8 digits.
            field: One of task_id, task_name, assigned_to_email, list_name, due_date, board.
        """
        if not task_id:
            return "Task ID not provided."
        if not field:
            return "Field not provided."
        task = state.tasks.find("task_id", task_id)
        if task is None:
            return "Task not found."
        return {field: task[field]} if field in task else "Field not found."

    @office_tool()
    def project_management_search_tasks(
        self,
        state: Office,
        task_name: Query = None,
        assigned_to_email: Query = None,
        list_name: Query = None,
        due_date: Query = None,
        board: Query = None,
    ) -> list[dict[str, Any]] | str:
        """Find tasks; at least one argument has to be given.

        Args:
            task_name: A part of the name.
            assigned_to_email: The whole address of who has to do it.
            list_name: The list it is in.
            due_date: The day it is due, YYYY-MM-DD.
            board: The board it is on.
        """
        if not any((task_name, assigned_to_email, list_name, due_date, board)):
            return "No search parameters provided."
        assignee = (assigned_to_email or "").lower()
        if assignee and (len(assignee) > _LONGEST_ADDRESS or not _ADDRESS.fullmatch(assignee)):
            return "Invalid email format for assigned_to_email."
        state.begin_search()
        parts = {"task_name": task_name, "list_name": list_name, "due_date": due_date, "board": board}
        texts = {name: text.lower() for name, text in parts.items() if text}
        found = [
            task
            for task in state.tasks.rows
            if (not assignee or task["assigned_to_email"].lower() == assignee)
            and all(contains(task[name], text) for name, text in texts.items())
        ]
        return state.give_out(found)

    @office_tool("task_name", "assigned_to_email", "list_name", "due_date", "board")
    def project_management_create_task(
        self,
        state: Office,
        task_name: Text = None,
        assigned_to_email: Text = None,
        list_name: Text = None,
        due_date: Text = None,
        board: Text = None,
    ) -> str:
        """Add a task; its id comes back.

        Args:
            task_name: Its name.
            assigned_to_email: The address of who has to do it.
            list_name: One of Backlog, In Progress, In Review, Completed.
            due_date: The day it is due, YYYY-MM-DD.
            board: One of Back end, Front end, Design.
        """
        if not (task_name and assigned_to_email and list_name and due_date and board):
            return "Missing task details."
        assignee = assigned_to_email.lower()
        for name, value in (("assigned_to_email", assignee), ("list_name", list_name), ("board", board)):
            if problem := _problem(state, name, value):
                return problem
        task_id = state.tasks.next_id("task_id", 8)
        state.tasks.add(
            {
                "task_id": task_id,
                "task_name": task_name,
                "assigned_to_email": assignee,
                "list_name": list_name,
                "due_date": due_date,
                "board": board,
            }
        )
        return task_id

    @office_tool("task_id")
    def project_management_delete_task(self, state: Office, task_id: Text = None) -> str:
        """Delete a task.

        Args:
            task_id: The task's id, 8 digits.
        """
        if not task_id:
            return "Task ID not provided."
        return "Task deleted successfully." if state.tasks.delete("task_id", task_id) else "Task not found."

    @office_tool("task_id", "field", "new_value")
    def project_management_update_task(
        self, state: Office, task_id: Text = None, field: Text = None, new_value: Text = None
    ) -> str:
        """Change one field of a task.

        Args:
            task_id: The task's id, 8 digits.
            field: One of task_name, assigned_to_email, list_name, due_date, board.
            new_value: What it is to be.
        """
        if not task_id or not field or not new_value:
            return "Task ID, field, or new value not provided."
        if field == "assigned_to_email":
            new_value = new_value.lower()
        if problem := _problem(state, field, new_value):
            return problem
        task = state.tasks.find("task_id", task_id)
        if task is None:
            return "Task not found."
        if field not in task:
            return "Field not valid."
        state.tasks.update("task_id", task_id, field, new_value)
        return "Task updated successfully."


def _problem(state: Office, field: str, value: str) -> str:
    """Why the field cannot have this value, or ""."""
    if field == "board" and value not in BOARDS:
        return f"Board not valid. Please choose from: {', '.join(map(repr, BOARDS))}."
    if field == "list_name" and value not in LISTS:
        return f"List not valid. Please choose from: {', '.join(map(repr, LISTS))}."
    if field == "assigned_to_email" and all(task["assigned_to_email"].lower() != value for task in state.tasks.rows):
        return "Assignee email not valid. Please choose from the list of team members."
    return ""
