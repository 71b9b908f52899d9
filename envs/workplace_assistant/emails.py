"""The company's directory and the mailbox."""

from __future__ import annotations

from typing import Any

from gym_llm.envs.workplace_assistant.office_tool import Count, Query, Text, moment, office_tool
from gym_llm.envs.workplace_assistant.tables import Office, words_text

_NOW = "2023-11-30 23:59:00"


class EmailTools:
    """`company_directory_…` and `email_…`."""

    @office_tool()
    def company_directory_find_email_address(self, state: Office, name: Query = "") -> list[str] | str:
        """List the e-mail addresses of the company that have a name in them, upper or lower case.

        Args:
            name: A name, or a part of one.
        """
        if not name:
            return "Name not provided."
        return [address for address in state.data.directory if name.lower() in address.lower()]

    @office_tool("email_id", "field")
    def email_get_email_information_by_id(
        self, state: Office, email_id: Text = None, field: Text = None
    ) -> dict[str, Any] | str:
        """Read one field of an e-mail.

        Args:
            email_id: The e-mail's id.
            field: One of email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body.
        """
        if not email_id:
            return "Email ID not provided."
        if not field:
            return "Field not provided."
        email = state.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        if field not in email:
            return f"Field '{field}' not found. Available fields: {', '.join(email)}"
        return {field: email[field]}

    @office_tool()
    def email_search_emails(
        self,
        state: Office,
        query: Query = "",
        date_min: Query = None,
        date_max: Query = None,
        page: Count = 1,
        page_size: Count = 5,
    ) -> dict[str, Any] | str:
        """Find e-mails, newest first, that have every word of a query in their subject, body or address.

        Args:
            query: Words, in any order, upper or lower case.
            date_min: The first day on which they were sent, YYYY-MM-DD.
            date_max: The last day on which they were sent, YYYY-MM-DD.
            page: Which page of the result, from 1.
            page_size: E-mails on a page.
        """
        state.begin_search()
        words = set((query or "").lower().split())
        try:
            first = moment(date_min).strftime("%Y-%m-%d") if date_min else ""
            last = moment(date_max).strftime("%Y-%m-%d") if date_max else ""
        except ValueError as error:
            return f"Error searching emails: {error}"
        found = []
        for email in reversed(state.emails.rows):  # of several sent at once the last is the newest
            day = email["sent_datetime"][:10]
            if day >= first and (not last or day <= last):
                text = words_text(email["subject"], email["body"], email["sender/recipient"])
                if all(word in text for word in words):
                    found.append(email)
        found.sort(key=lambda email: email["sent_datetime"], reverse=True)
        return state.page("emails", found, page or 1, page_size or 5)

    @office_tool("recipient", "subject", "body")
    def email_send_email(self, state: Office, recipient: Text = None, subject: Text = None, body: Text = None) -> str:
        """Send an e-mail.

        Args:
            recipient: The address it goes to.
            subject: Its subject.
            body: Its text.
        """
        if not recipient or not subject or not body:
            return "Recipient, subject, or body not provided."
        return _send(state, recipient, subject, body, "sent")

    @office_tool("email_id")
    def email_delete_email(self, state: Office, email_id: Text = None) -> str:
        """Delete an e-mail.

        Args:
            email_id: The e-mail's id.
        """
        if not email_id:
            return "Email ID not provided."
        return "Email deleted successfully." if state.emails.delete("email_id", email_id) else "Email not found."

    @office_tool("email_id", "recipient")
    def email_forward_email(self, state: Office, email_id: Text = None, recipient: Text = None) -> str:
        """Forward an e-mail.

        Args:
            email_id: The e-mail's id.
            recipient: The address it goes to.
        """
        if not email_id or not recipient:
            return "Email ID or recipient not provided."
        if not _is_address(recipient):
            return "Invalid recipient email address."
        email = state.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        return _send(state, recipient, f"FW: {email['subject']}", email["body"], "forwarded")

    @office_tool("email_id", "body")
    def email_reply_email(self, state: Office, email_id: Text = None, body: Text = None) -> str:
        """Answer an e-mail: the reply goes to who sent it, or to whom it was sent.

        Args:
            email_id: The e-mail's id.
            body: The reply's text.
        """
        if not email_id or not body:
            return "Email ID or body not provided."
        email = state.emails.find("email_id", email_id)
        if email is None:
            return "Email not found."
        return _send(state, email["sender/recipient"], f"RE: {email['subject']}", body, "replied")


def _is_address(text: str) -> bool:
    return "@" in text and "." in text


def _send(state: Office, recipient: str, subject: str, body: str | None, done: str) -> str:
    if not _is_address(recipient):
        return "Invalid recipient email address."
    state.emails.add(
        {
            "email_id": state.emails.next_id("email_id"),
            "inbox/outbox": "outbox",
            "sender/recipient": recipient.lower(),
            "subject": subject,
            "sent_datetime": _NOW,
            "body": body,
        }
    )
    return f"Email {done} successfully."
