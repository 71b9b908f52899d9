"""The list of customers."""

from __future__ import annotations

from typing import Any

from gym_llm.envs.workplace_assistant.office_tool import Count, Query, Text, office_tool
from gym_llm.envs.workplace_assistant.tables import Office, contains

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_FIELDS = (
    "customer_name", "assigned_to_email", "customer_email", "customer_phone", "last_contact_date", "product_interest",
    "status", "notes", "follow_up_by",
)  # fmt: skip


class CustomerTools:
    """`customer_relationship_manager_…`."""

    @office_tool()
    def customer_relationship_manager_search_customers(
        self,
        state: Office,
        customer_name: Query = None,
        customer_email: Query = None,
        product_interest: Query = None,
        status: Query = None,
        assigned_to_email: Query = None,
        last_contact_date_min: Query = None,
        last_contact_date_max: Query = None,
        follow_up_by_min: Query = None,
        follow_up_by_max: Query = None,
        page: Count = 1,
        page_size: Count = 5,
    ) -> dict[str, Any] | str:
        """Find customers; at least one argument besides the page has to be given.

        Args:
            customer_name: A part of the name.
            customer_email: A part of the customer's address.
            product_interest: What the customer is interested in.
            status: The customer's status.
            assigned_to_email: A part of the address of who looks after the customer.
            last_contact_date_min: The first day of the last contact, YYYY-MM-DD.
            last_contact_date_max: The last day of the last contact, YYYY-MM-DD.
            follow_up_by_min: The first day of the next contact, YYYY-MM-DD.
            follow_up_by_max: The last day of the next contact, YYYY-MM-DD.
            page: Which page of the result, from 1.
            page_size: Customers on a page.
        """
        parts = {
            "customer_name": customer_name,
            "customer_email": customer_email,
            "product_interest": product_interest,
            "status": status,
            "assigned_to_email": assigned_to_email,
        }
        texts = {name: text.lower() for name, text in parts.items() if text}
        ranges = [
            (name, first, last)
            for name, first, last in (
                ("last_contact_date", last_contact_date_min, last_contact_date_max),
                ("follow_up_by", follow_up_by_min, follow_up_by_max),
            )
            if first or last
        ]
        if not texts and not ranges:
            return "No search parameters provided. Please provide at least one parameter."
        state.begin_search()
        found = [
            customer
            for customer in state.customers.rows
            if all(contains(customer[name], text) for name, text in texts.items())
            and all(_within(customer[name], first, last) for name, first, last in ranges)
        ]
        return state.page("customers", found, page or 1, page_size or 5)

    @office_tool("customer_id", "field", "new_value")
    def customer_relationship_manager_update_customer(
        self, state: Office, customer_id: Text = None, field: Text = None, new_value: Text = None
    ) -> str:
        """Change one field of a customer.

        Args:
            customer_id: The customer's id.
            field: One of customer_name, assigned_to_email, customer_email, customer_phone, last_contact_date,
                product_interest, status, notes, follow_up_by.
            new_value: What it is to be.
        """
        if not customer_id or not field or not new_value:
            return "Customer ID, field, or new value not provided."
        if field == "status" and new_value not in STATUSES:
            return f"Status not valid. Please choose from: {', '.join(map(repr, STATUSES))}"
        if field == "product_interest" and new_value not in PRODUCTS:
            return f"Product interest not valid. Please choose from: {', '.join(map(repr, PRODUCTS))}"
        if field in ("customer_email", "assigned_to_email"):
            new_value = new_value.lower()
        customer = state.customers.find("customer_id", customer_id)
        if customer is None:
            return "Customer not found."
        if field not in customer:
            return f"Field not valid. Please choose from: {', '.join(map(repr, _FIELDS))}"
        state.customers.update("customer_id", customer_id, field, new_value)
        return "Customer updated successfully."

    @office_tool("customer_name", "assigned_to_email", "status")
    def customer_relationship_manager_add_customer(
        self,
        state: Office,
        customer_name: Text = None,
        assigned_to_email: Text = None,
        status: Text = None,
        customer_email: Text = None,
        customer_phone: Text = None,
        last_contact_date: Text = None,
        product_interest: Text = None,
        notes: Text = "",
        follow_up_by: Text = None,
    ) -> str:
        """Add a customer; the id comes back.

        Args:
            customer_name: The name.
            assigned_to_email: The address of who looks after the customer.
            status: One of Qualified, Won, Lost, Lead, Proposal.
            customer_email: The customer's address.
            customer_phone: The customer's telephone number.
            last_contact_date: The day of the last contact, YYYY-MM-DD.
            product_interest: One of Software, Hardware, Services, Consulting, Training.
            notes: What else there is to say.
            follow_up_by: The day of the next contact, YYYY-MM-DD.
        """
        if not (customer_name and assigned_to_email and status):
            return "Please provide all required fields: customer_name, assigned_to_email, status."
        customer_id = state.customers.next_id("customer_id", 8)
        state.customers.add(
            {
                "customer_id": customer_id,
                "assigned_to_email": assigned_to_email.lower(),
                "customer_name": customer_name,
                "customer_email": customer_email.lower() if customer_email else customer_email,
                "customer_phone": customer_phone,
                "last_contact_date": last_contact_date,
                "product_interest": product_interest,
                "status": status,
                "follow_up_by": follow_up_by,
                "notes": notes,
            }
        )
        return customer_id

    @office_tool("customer_id")
    def customer_relationship_manager_delete_customer(self, state: Office, customer_id: Text = None) -> str:
        """Delete a customer.

        Args:
            customer_id: The customer's id.
        """
        if not customer_id:
            return "Customer ID not provided."
        deleted = state.customers.delete("customer_id", customer_id)
        return "Customer deleted successfully." if deleted else "Customer not found."


def _within(value: str | None, first: str | None, last: str | None) -> bool:
    return value is not None and (not first or value >= first) and (not last or value <= last)
